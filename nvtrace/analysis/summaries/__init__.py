"""One module a view: each turns an explained trace into one table."""
