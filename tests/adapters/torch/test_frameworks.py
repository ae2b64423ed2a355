"""Training loops that their users do not write, by the packages that people use."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from training import counts, loader, named, note_codes, perceptron

import nvtrace

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # theirs
    pytest.mark.usefixtures("_quiet"),
]


def need(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        reason = f"{package} is not installed: pip install --group test"
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@pytest.fixture
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "ACCELERATE_USE_CPU"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")


def of(steps: int, batches: int) -> dict[str, int]:
    names = ("Dataloader", "Forward", "Backward")
    return {"ProfileStep": steps, **dict.fromkeys(names, batches), "Optimization": steps}


def bert() -> Any:
    import transformers

    config = transformers.BertConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=8,
        num_labels=2,
    )
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(config)


class Sentences(torch.utils.data.Dataset):
    """Sixteen rows of six tokens."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {"input_ids": (torch.arange(6) + row) % 20, "labels": torch.tensor(row % 2)}


def hf_trainer(model: Any, folder: Path, accumulate: int, callbacks: list[Any]) -> Any:
    import transformers

    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=2,
        gradient_accumulation_steps=accumulate,
        num_train_epochs=1,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    return transformers.Trainer(
        model=model, args=arguments, train_dataset=Sentences(), callbacks=callbacks
    )


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("by", ["adapter", "callback"])
def test_hf_trainer(tmp_path: Path, accumulate: int, by: str) -> None:
    need("transformers")
    from nvtrace.adapters.torch.callbacks import TrainerCallback

    plain = bert()
    hf_trainer(plain, tmp_path, accumulate, []).train()
    model = bert()
    if by == "callback":
        callback = TrainerCallback(adapters=["torch"], modules=True)
        hf_trainer(model, tmp_path, accumulate, [callback]).train()
        profiler = callback.profiler
    else:
        profiler = nvtrace.Profiler(adapters=["torch"], modules=True)
        with profiler:
            hf_trainer(model, tmp_path, accumulate, []).train()
    trace = profiler.trace
    assert trace is not None
    assert counts(trace) == of(8 // accumulate, 8)
    assert len(named(trace, "bert.encoder.layer.1.attention")) == 8
    assert len(named(trace, "BertForSequenceClassification")) == 8
    assert ("steps_by_adapter" in note_codes(trace)) is (by == "adapter")
    assert ("gradient_accumulation" in note_codes(trace)) is (accumulate == 2)
    _same(plain, model)


def lightning_module() -> Any:
    import lightning.pytorch as pl

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = perceptron()

        def training_step(self, batch: Any, number: int) -> Any:
            return self.net(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    torch.manual_seed(0)
    return Module()


def lightning_trainer(folder: Path, accumulate: int, callbacks: list[Any]) -> Any:
    import lightning.pytorch as pl

    return pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=1,
        accumulate_grad_batches=accumulate,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=callbacks,
    )


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("by", ["adapter", "callback"])
def test_lightning(tmp_path: Path, accumulate: int, by: str) -> None:
    need("lightning")
    from nvtrace.adapters.torch.callbacks import LightningCallback

    plain, model = lightning_module(), lightning_module()
    lightning_trainer(tmp_path, accumulate, []).fit(plain, loader())
    if by == "callback":
        callback = LightningCallback(adapters=["torch"])
        lightning_trainer(tmp_path, accumulate, [callback]).fit(model, loader())
        profiler = callback.profiler
    else:
        profiler = nvtrace.Profiler(adapters=["torch"])
        with profiler:
            lightning_trainer(tmp_path, accumulate, []).fit(model, loader())
    trace = profiler.trace
    assert trace is not None
    assert counts(trace) == of(4 // accumulate, 4)
    # the closure runs inside the optimizer's step: what is in one phase is in no other
    rows = trace.summary("model")["model"].rows()
    (steps,) = [row["cpu_total_ns"] for row in rows if row["name"] == "ProfileStep"]
    assert sum(row["cpu_total_ns"] for row in rows if row["name"] != "ProfileStep") == steps
    _same(plain, model)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_accelerate(accumulate: int) -> None:
    need("accelerate")
    from accelerate import Accelerator

    def train() -> Any:
        torch.manual_seed(0)
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
        model = perceptron()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer, data = accelerator.prepare(model, optimizer, loader())
        for (x,) in data:
            with accelerator.accumulate(model):
                accelerator.backward(model(x).square().mean())
                optimizer.step()
                optimizer.zero_grad()
        return model

    plain = train()
    with nvtrace.Profiler(adapters=["torch"]) as profiler:
        model = train()
    assert profiler.trace is not None
    assert counts(profiler.trace) == of(4 // accumulate, 4)
    _same(plain, model)


def _same(plain: Any, model: Any) -> None:
    assert all(
        torch.equal(one, other)
        for one, other in zip(plain.parameters(), model.parameters(), strict=True)
    )
