"""Programs whose packages train by themselves: loops with callbacks, checkpoints, and runs that go on from them.

Each trains twenty steps or more. What a program saves, it saves in a folder of its own, which it removes.
"""

from __future__ import annotations

import tempfile
from typing import Any

from table import trainer


def _network(source: Any, width: int = 6) -> tuple[Any, Any, Any]:
    """A small network with a normalization, and what it is trained on."""
    import torch

    model = torch.nn.Sequential(
        torch.nn.Linear(width, 16, bias=False),
        torch.nn.BatchNorm1d(16),
        torch.nn.ReLU(),
        torch.nn.Linear(16, 3),
    )
    return model, source.normal(48, width), source.below(3, 48)


def _gpt(source: Any, **options: Any) -> Any:
    """GPT-2, small and without dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    still = {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
    size = {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
    return GPT2LMHeadModel(GPT2Config(**size, **still, bos_token_id=0, eos_token_id=0, **options))


@trainer("transformers: Trainer, checkpoints, resumed", "transformers")
def _hugging(source: Any) -> Any:
    from transformers import Trainer, TrainerCallback, TrainingArguments

    model = _gpt(source)
    rows = source.below(60, 24, 16) + 2
    data = [{"input_ids": row, "labels": row} for row in rows]
    found: list[float] = []

    class Kept(TrainerCallback):  # type: ignore[misc]
        """Keeps the losses that are reported."""

        def on_log(self, arguments: Any, state: Any, control: Any, **rest: Any) -> None:
            """A line of the log."""
            found.extend(rest["logs"][key] for key in ("loss", "eval_loss") if key in rest["logs"])

    def fit() -> list[float]:
        with tempfile.TemporaryDirectory() as folder:
            options = {"per_device_train_batch_size": 4, "logging_steps": 1, "save_steps": 6}
            options |= {"eval_strategy": "epoch", "disable_tqdm": True, "max_grad_norm": 0.5}
            options |= {"warmup_steps": 4, "report_to": [], "weight_decay": 0.1}

            def run(epochs: int, **how: Any) -> None:
                arguments = TrainingArguments(
                    folder, num_train_epochs=epochs, **options, use_cpu=True
                )
                Trainer(
                    model, arguments, train_dataset=data, eval_dataset=data[:8], callbacks=[Kept]
                ).train(**how)

            run(3)
            run(5, resume_from_checkpoint=True)
        return found

    return model, fit


@trainer("transformers: generate after training, in its modes", "transformers")
def _generated(source: Any) -> Any:
    import torch

    model, helper = _gpt(source), _gpt(source)
    rows = source.below(60, 8, 16) + 2

    def fit() -> list[float]:
        optimizer, found = torch.optim.AdamW(model.parameters(), lr=3e-3), []
        for _ in range(20):
            loss = model(input_ids=rows, labels=rows).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(float(loss))
        helper.load_state_dict(model.state_dict())
        model.eval()
        helper.eval()
        start = {"input_ids": rows[:1, :4], "attention_mask": torch.ones(1, 4).long()}
        modes: list[dict[str, Any]] = [
            {},
            {"do_sample": True, "top_k": 8, "top_p": 0.9, "temperature": 0.8},
            {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.7},
            {"num_beams": 2, "do_sample": True},
            {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "min_new_tokens": 4},
            {"assistant_model": helper},
            {"prompt_lookup_num_tokens": 2},
            {"use_cache": False},
            {"do_sample": True, "min_p": 0.05, "typical_p": 0.9, "epsilon_cutoff": 1e-3},
            {"cache_implementation": "static"},
        ]
        for mode in modes:
            made = model.generate(**start, max_new_tokens=8, pad_token_id=0, **mode)
            found.append(float((made.double() + 1).log().sum()))
        return found

    return model, fit


@trainer("accelerate: Accelerator, accumulation, saved state", "accelerate")
def _accelerated(source: Any) -> Any:
    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader, TensorDataset

    model, x, y = _network(source)

    def fit() -> list[float]:
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        steps = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=60)
        loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
        net, optimizer, loader, steps = accelerator.prepare(model, optimizer, loader, steps)
        found = []

        def epoch() -> None:
            for a, b in loader:
                with accelerator.accumulate(net):
                    loss = torch.nn.functional.cross_entropy(net(a), b)
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        accelerator.clip_grad_norm_(net.parameters(), 1.0)
                    optimizer.step()
                    steps.step()
                    optimizer.zero_grad()
                found.append(accelerator.gather_for_metrics(loss.detach()).mean().item())

        with tempfile.TemporaryDirectory() as folder:
            epoch()
            epoch()
            accelerator.save_state(folder)
            epoch()
            accelerator.load_state(folder)
            epoch()
        return found

    return model, fit


def _lightning(module: str, package: str) -> None:
    """Lightning under one of its names."""

    @trainer(f"{module}: Trainer, callbacks, checkpoints, resumed", package)
    def fitted(source: Any) -> Any:
        import importlib

        import torch
        from torch.utils.data import DataLoader, TensorDataset

        pl = importlib.import_module(module)
        callbacks = importlib.import_module(f"{module}.callbacks")
        net, x, y = _network(source)
        found: list[float] = []

        class Classifier(pl.LightningModule):  # type: ignore[misc,name-defined]
            """A network, its losses and its optimizer."""

            def __init__(self) -> None:
                super().__init__()
                self.net = net
                self.save_hyperparameters({"width": 16})

            def _loss(self, batch: Any) -> Any:
                return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

            def training_step(self, batch: Any, index: int) -> Any:
                """A step's loss."""
                loss = self._loss(batch)
                self.log("train_loss", loss, prog_bar=True)
                found.append(loss.item())
                return loss

            def validation_step(self, batch: Any, index: int) -> None:
                """The loss on held-out data."""
                self.log("val_loss", self._loss(batch))

            def configure_optimizers(self) -> Any:
                """Adam with a schedule."""
                optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
                schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
                return {"optimizer": optimizer, "lr_scheduler": schedule}

        model = Classifier()

        def fit() -> list[float]:
            train = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
            held = DataLoader(TensorDataset(x[:16], y[:16]), batch_size=8)
            with tempfile.TemporaryDirectory() as folder:

                def run(epochs: int, path: str | None) -> Any:
                    best = callbacks.ModelCheckpoint(folder, monitor="val_loss", save_last=True)
                    seen = [
                        best,
                        callbacks.EarlyStopping("val_loss", patience=9),
                        callbacks.LearningRateMonitor(),
                    ]
                    made = pl.Trainer(
                        max_epochs=epochs,
                        accelerator="cpu",
                        callbacks=seen,
                        default_root_dir=folder,
                        enable_progress_bar=False,
                        enable_model_summary=True,
                        gradient_clip_val=0.5,
                        accumulate_grad_batches=2,
                        log_every_n_steps=1,
                    )
                    made.fit(model, train, held, ckpt_path=path)
                    found.append(float(made.callback_metrics["val_loss"]))
                    found.append(made.validate(model, held, verbose=False)[0]["val_loss"])
                    return best

                run(3, None)
                best = run(5, f"{folder}/last.ckpt")
                Classifier.load_from_checkpoint(best.best_model_path)
            return found

        return model, fit


_lightning("lightning.pytorch", "lightning")
_lightning("pytorch_lightning", "pytorch-lightning")


@trainer("ignite: engine, metrics, checkpoints, resumed", "pytorch-ignite")
def _ignited(source: Any) -> Any:
    import torch
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.handlers import Checkpoint, DiskSaver, EMAHandler, PiecewiseLinear
    from ignite.metrics import Accuracy, Loss, RunningAverage
    from torch.utils.data import DataLoader, TensorDataset

    model, x, y = _network(source)

    def fit() -> list[float]:
        found: list[float] = []
        loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        criterion = torch.nn.CrossEntropyLoss()
        with tempfile.TemporaryDirectory() as folder:

            def engine() -> tuple[Any, Any]:
                made = create_supervised_trainer(model, optimizer, criterion)
                judge = create_supervised_evaluator(
                    model, {"accuracy": Accuracy(), "loss": Loss(criterion)}
                )
                RunningAverage(output_transform=lambda loss: loss).attach(made, "average")
                lr = PiecewiseLinear(optimizer, "lr", [(0, 0.1), (20, 0.01)])
                made.add_event_handler(Events.ITERATION_STARTED, lr)
                EMAHandler(model).attach(made)
                made.on(Events.ITERATION_COMPLETED)(
                    lambda e: found.append(e.state.metrics["average"])
                )

                @made.on(Events.EPOCH_COMPLETED)  # type: ignore[untyped-decorator]
                def judged(e: Any) -> None:
                    found.extend(judge.run(loader).metrics.values())

                kept = {"model": model, "optimizer": optimizer, "trainer": made, "lr": lr}
                saver = Checkpoint(kept, DiskSaver(folder, require_empty=False), n_saved=1)
                made.add_event_handler(Events.EPOCH_COMPLETED, saver)
                return made, saver

            first, saver = engine()
            first.run(loader, max_epochs=3)
            second, _ = engine()
            state = torch.load(saver.last_checkpoint)
            Checkpoint.load_objects(
                {"model": model, "optimizer": optimizer, "trainer": second}, state
            )
            second.run(loader, max_epochs=5)
        return found

    return model, fit


@trainer("skorch: classifier, callbacks, grid search", "skorch")
def _skorched(source: Any) -> Any:
    import pickle

    import torch
    from sklearn.model_selection import cross_val_score
    from skorch import NeuralNetClassifier
    from skorch.callbacks import Checkpoint, EpochScoring, GradientNormClipping, LRScheduler

    model, x, y = _network(source)

    def fit() -> list[float]:
        a, b = x.numpy(), y.numpy()
        with tempfile.TemporaryDirectory() as folder:
            net = NeuralNetClassifier(
                model,
                criterion=torch.nn.CrossEntropyLoss,
                optimizer=torch.optim.Adam,
                lr=1e-2,
                max_epochs=4,
                batch_size=8,
                iterator_train__shuffle=True,
                verbose=0,
                callbacks=[
                    ("clip", GradientNormClipping(1.0)),
                    ("lr", LRScheduler("StepLR", step_size=2, gamma=0.5)),
                    ("auc", EpochScoring("roc_auc_ovr", lower_is_better=False)),
                    ("kept", Checkpoint(dirname=folder)),
                ],
            )
            net.fit(a, b)
            net.load_params(checkpoint=net.callbacks[3][1])
            net = pickle.loads(pickle.dumps(net))
            net.partial_fit(a, b)
            scores = cross_val_score(net.set_params(callbacks=[]), a, b, cv=2)
        return [*net.history[:, "train_loss"], *net.history[:, "valid_loss"], *(scores + 1)]

    return model, fit
