"""From a TraceData to derived columns and reports; nothing here reads files or prints."""
