"""`SummaryWriter`: reports of a run, step by step, as event files for TensorBoard.

Values under tags become events, which the package `tensorboard` appends to files of the run's folder in a thread of
its own. `summary` makes the content of an event.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from tensorboard.compat.proto import event_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError, ArgumentTypeError
from weft.utils.tensorboard import embedding, graphs, pictures, summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FileWriter", "SummaryWriter"]


def _bin_edges() -> list[float]:
    """Edges that grow by a tenth each, on both sides of zero: TensorBoard's own bins."""
    edges, edge = [], 1e-12
    while edge < 1e20:
        edges.append(edge)
        edge *= 1.1
    return [*(-edge for edge in reversed(edges)), 0, *edges]


class FileWriter:
    """Appends events to one file of a folder.

    Args:
        log_dir: the folder.
        max_queue: how many events wait before they are written. Default: 10.
        flush_secs: how many seconds they wait at most. Default: 120.
        filename_suffix: the end of the file's name. Default: ''.
    """

    def __init__(
        self, log_dir: object, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        folder: str = self.event_writer.get_logdir()
        return folder

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Append an event, which gets the time and the step.

        Args:
            event: the event.
            step: the number of the step, at which charts show it; None: 0.
            walltime: when it happened, in seconds since 1970; None: now.
        """
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)  # a NumPy number would be refused
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: object, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Append a summary.

        Args:
            summary: the summary.
            global_step: the number of the step, at which charts show it; None: 0.
            walltime: when it happened, in seconds since 1970; None: now.
        """
        self.add_event(event_pb2.Event(summary=summary), global_step, walltime)

    def add_graph(self, graph: Any, walltime: float | None = None) -> None:
        """Append a graph.

        Args:
            graph: the graph and what was measured with it.
            walltime: when it happened, in seconds since 1970; None: now.
        """
        event = event_pb2.Event(graph_def=graph.SerializeToString())
        self.add_event(event, None, walltime)

    def flush(self) -> None:
        """Wait until the file has all events."""
        self.event_writer.flush()

    def close(self) -> None:
        """Close the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Open a closed file again."""
        self.event_writer.reopen()


class SummaryWriter:
    """Writes the log of a run.

    Args:
        log_dir: its folder; `runs/` with the time and the machine's name unless given.
        comment: what stands behind that name.
        purge_step: TensorBoard forgets what was logged from this step on, as after a crash.
        max_queue: how many events may wait before a call waits.
        flush_secs: after how many seconds the file has them at the latest.
        filename_suffix: how names of files end.

    Raises:
        ImportError: where the package `tensorboard` is not installed, when this module is imported.
    """

    def __init__(
        self,
        log_dir: object = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        now = datetime.now().strftime("%b%d_%H-%M-%S")
        self.log_dir = log_dir or os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.purge_step, self.max_queue = purge_step, max_queue
        self.flush_secs, self.filename_suffix = flush_secs, filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self.default_bins = _bin_edges()
        self._projected: list[Any] = []
        self._get_file_writer()

    def _new_writer(self, folder: object) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _get_file_writer(self) -> FileWriter:
        """The writer of the run's own folder; a new one after `close`."""
        if self.file_writer is None or self.all_writers is None:
            self.file_writer = self._new_writer(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            self._purge(self.file_writer)
        return self.file_writer

    def _purge(self, writer: FileWriter) -> None:
        if self.purge_step is None:
            return
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        for what in ({"file_version": "brain.Event:2"}, {"session_log": start}):
            writer.add_event(event_pb2.Event(step=self.purge_step, **what))
        self.purge_step = None

    def _add(self, made: object, step: int | None = None, walltime: float | None = None) -> None:
        self._get_file_writer().add_summary(made, step, walltime)

    def get_logdir(self) -> Any:
        """The folder of the run."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: object,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Log a number. `new_style` writes it as a tensor, which loads faster.

        Args:
            tag: the name of the chart.
            scalar_value: the number.
            global_step: the number of the step, at which charts show it; None: 0.
            walltime: when it happened, in seconds since 1970; None: now.
            new_style: True: as a tensor, which loads faster. Default: False.
            double_precision: True: keep it in float64. Default: False.
        """
        made = summary.scalar(
            tag, scalar_value, new_style=new_style, double_precision=double_precision
        )
        self._add(made, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, object],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Log several numbers that one chart shows: each has a folder of its own.

        Args:
            main_tag: the name of the chart.
            tag_scalar_dict: numbers by name.
            global_step: the number of the step, at which charts show it; None: 0.
            walltime: when it happened, in seconds since 1970; None: now.
        """
        walltime = time.time() if walltime is None else walltime
        top = f"{self._get_file_writer().get_logdir()}/{main_tag.replace('/', '_')}_"
        assert self.all_writers is not None
        for tag, value in tag_scalar_dict.items():
            if top + tag not in self.all_writers:
                self.all_writers[top + tag] = self._new_writer(top + tag)
            made = summary.scalar(main_tag, value)
            self.all_writers[top + tag].add_summary(made, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, object],
        metric_dict: dict[str, object],
        hparam_domain_discrete: dict[str, list[object]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Log hyperparameters and what a run with them reached, as a run below this one.

        Args:
            hparam_dict: hyperparameters by name: numbers, texts, truth values.
            metric_dict: what was reached, by name.
            hparam_domain_discrete: the values that a hyperparameter may have, by name; None:
                any.
            run_name: the name of the run; None: the time.
            global_step: the number of the step, at which charts show it; None: 0.
        """
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise ArgumentTypeError(
                "hparam_dict and metric_dict should be dictionary.",
                expected="two dictionaries",
                got=f"{type(hparam_dict).__name__} and {type(metric_dict).__name__}",
                fix="pass dict(hyperparameters) and dict(metrics)",
            )
        parts = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        top = self._get_file_writer().get_logdir()
        with SummaryWriter(log_dir=os.path.join(top, run_name or str(time.time()))) as below:
            for part in parts:
                below._add(part, global_step)
            for tag, value in metric_dict.items():
                below.add_scalar(tag, value, global_step)

    def add_tensor(
        self,
        tag: str,
        tensor: Tensor,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Log a tensor whole.

        Args:
            tag: the name of the chart.
            tensor: the tensor.
            global_step: the number of the step, at which charts show it; None: 0.
            walltime: when it happened, in seconds since 1970; None: now.
        """
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Sequence[object],
        global_step: int | None = None,
        bins: object = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Log how values are spread. `bins`: edges, a count or a rule's name as `numpy.histogram` takes them.

        Args:
            tag: the name of the chart.
            values: the values.
            global_step: the number of the step, at which charts show it; None: 0.
            bins: edges, a count, or a rule's name, as `numpy.histogram` takes them;
                "tensorflow" has bins that grow. Default: 'tensorflow'.
            walltime: when it happened, in seconds since 1970; None: now.
            max_bins: the largest number of bins; None: no bound.
        """
        edges = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        self._add(summary.histogram(tag, values, edges, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Log a histogram that was counted elsewhere: the upper ends of its bins and how many are in each.

        Args:
            tag: the name of the chart.
            min: the least value.
            max: the largest value.
            num: how many values.
            sum: their sum.
            sum_squares: the sum of their squares.
            bucket_limits: the upper end of each bin.
            bucket_counts: how many are in each bin.
            global_step: the number of the step, at which charts show it; None: 0.
            walltime: when it happened, in seconds since 1970; None: now.
        """
        if len(bucket_limits) != len(bucket_counts):
            raise ArgumentError(
                "len(bucket_limits) != len(bucket_counts), see the document.",
                expected="an upper end for each bin",
                got=f"{len(bucket_limits)} ends and {len(bucket_counts)} bins",
                fix="leave out the lower end of the first bin",
            )
        made = summary.histogram_raw(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._add(made, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Log a picture: bytes, or floats in [0, 1]. `dataformats` names its dimensions.

        Args:
            tag: the name of the chart.
            img_tensor: the picture, or pictures: bytes, or floats in [0, 1].
            global_step: the number of the step, at which charts show it; None: 0.
            walltime: when it happened, in seconds since 1970; None: now.
            dataformats: a letter for each dimension: N, C, H and W. Default: 'CHW'.
        """
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: object,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Log pictures in a grid, eight in a row.

        Args:
            tag: the name of the chart.
            img_tensor: the picture, or pictures: bytes, or floats in [0, 1].
            global_step: the number of the step, at which charts show it; None: 0.
            walltime: when it happened, in seconds since 1970; None: now.
            dataformats: a letter for each dimension: N, C, H and W. Default: 'NCHW'.
        """
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: object,
        box_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Any = None,
    ) -> None:
        """Log a picture with boxes (left, top, right, bottom) drawn into it, and a label at each.

        Args:
            tag: the name of the chart.
            img_tensor: the picture, or pictures: bytes, or floats in [0, 1].
            box_tensor: the boxes, (N, 4).
            global_step: the number of the step, at which charts show it; None: 0.
            walltime: when it happened, in seconds since 1970; None: now.
            rescale: the factor of the picture's size. Default: 1.
            dataformats: a letter for each dimension: N, C, H and W. Default: 'CHW'.
            labels: a text for each box; None: none.
        """
        labels = [labels] if isinstance(labels, str) else labels
        if labels is not None and len(labels) != box_tensor.shape[0]:
            labels = None
        made = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(made, global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Figure | list[Figure],
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Log a figure of matplotlib, or several, as a picture.

        Args:
            tag: the name of the chart.
            figure: a figure, or a list of them.
            global_step: the number of the step, at which charts show it; None: 0.
            close: True: close them afterwards. Default: True.
            walltime: when it happened, in seconds since 1970; None: now.
        """
        drawn = pictures.figure_to_image(figure, close)
        form = "NCHW" if isinstance(figure, list) else "CHW"
        self.add_image(tag, drawn, global_step, walltime, form)

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: int | None = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Log a film (N, T, C, H, W) of bytes or of floats in [0, 1]; the N films in one row.

        Args:
            tag: the name of the chart.
            vid_tensor: the films, (N, T, C, H, W).
            global_step: the number of the step, at which charts show it; None: 0.
            fps: pictures a second. Default: 4.
            walltime: when it happened, in seconds since 1970; None: now.
        """
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Log a sound of one channel, with values in [-1, 1].

        Args:
            tag: the name of the chart.
            snd_tensor: the sound, (length) or (1, length).
            global_step: the number of the step, at which charts show it; None: 0.
            sample_rate: values a second. Default: 44100.
            walltime: when it happened, in seconds since 1970; None: now.
        """
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Log a text, which is shown as Markdown.

        Args:
            tag: the name of the chart.
            text_string: the text.
            global_step: the number of the step, at which charts show it; None: 0.
            walltime: when it happened, in seconds since 1970; None: now.
        """
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_graph(
        self,
        model: object,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """Log the modules that a call of the model runs, and which output goes where.

        Args:
            model: the module.
            input_to_model: its argument, or a tuple of them; None: an error, since it has to
                run.
            verbose: True: print the graph. Default: False.
            use_strict_trace: accepted. Default: True.
        """
        self._get_file_writer().add_graph(graphs.graph(model, input_to_model, verbose))

    def add_embedding(
        self,
        mat: Tensor,
        metadata: object = None,
        label_img: object = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: object = None,
    ) -> None:
        """Log points (N, D) for the projector, with a label or a row of labels each, and a picture each.

        Args:
            mat: the points, (N, D).
            metadata: a label for each point, or a row of labels; None: none.
            label_img: a picture for each point, (N, C, H, W); None: none.
            global_step: the number of the step, at which charts show it; None: 0.
            tag: the name of the embedding. Default: 'default'.
            metadata_header: the names of the columns of labels; None: there is one.
        """
        top = self._get_file_writer().get_logdir()
        points = summary.make_np(mat)
        self._projected.append(
            embedding.write(
                top, points, metadata, label_img, global_step or 0, tag, metadata_header
            )
        )
        embedding.write_config(top, self._projected)

    def add_pr_curve(
        self,
        tag: str,
        labels: object,
        predictions: object,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: object = None,
        walltime: float | None = None,
    ) -> None:
        """Log precision and recall of predictions in [0, 1] at so many thresholds.

        Args:
            tag: the name of the chart.
            labels: 0 or 1 for each example.
            predictions: a probability for each example.
            global_step: the number of the step, at which charts show it; None: 0.
            num_thresholds: how many thresholds. Default: 127.
            weights: how much each example counts; None: all alike.
            walltime: when it happened, in seconds since 1970; None: now.
        """
        made = summary.pr_curve(
            tag, np.asarray(labels), np.asarray(predictions), num_thresholds, weights
        )
        self._add(made, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: object,
        false_positive_counts: object,
        true_negative_counts: object,
        false_negative_counts: Any,
        precision: object,
        recall: object,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: object = None,
        walltime: float | None = None,
    ) -> None:
        """Log a curve of precision and recall that was counted elsewhere.

        Args:
            tag: the name of the chart.
            true_positive_counts: for each threshold, how many are rightly found.
            false_positive_counts: how many are wrongly found.
            true_negative_counts: how many are rightly left out.
            false_negative_counts: how many are wrongly left out.
            precision: for each threshold.
            recall: for each threshold.
            global_step: the number of the step, at which charts show it; None: 0.
            num_thresholds: how many thresholds. Default: 127.
            weights: accepted; None: the same.
            walltime: when it happened, in seconds since 1970; None: now.
        """
        counts = (
            true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts,
        )  # fmt: skip
        made = summary.pr_curve_raw(tag, *counts, precision, recall, num_thresholds, weights)
        self._add(made, global_step, walltime)

    def add_custom_scalars(self, layout: dict[str, dict[str, list[object]]]) -> None:
        """Say which tags charts show: category -> title -> ["Multiline", tags] or ["Margin", three tags].

        Args:
            layout: charts by category and title.
        """
        self._add(summary.custom_scalars(layout))

    def add_custom_scalars_multilinechart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Have one chart show several tags.

        Args:
            tags: the names of numbers.
            category: under which the chart stands. Default: 'default'.
            title: of the chart. Default: 'untitled'.
        """
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: list[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Have one chart show a value between a lower and an upper one.

        Args:
            tags: the names of numbers.
            category: under which the chart stands. Default: 'default'.
            title: of the chart. Default: 'untitled'.
        """
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_mesh(
        self,
        tag: str,
        vertices: object,
        colors: object = None,
        faces: object = None,
        config_dict: dict[str, object] | None = None,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Log points in space (B, N, 3), with colours and with triangles between them.

        Args:
            tag: the name of the chart.
            vertices: points, (B, N, 3).
            colors: a colour of each point, (B, N, 3), bytes; None: grey.
            faces: the three points of each triangle, (B, F, 3); None: no triangles.
            config_dict: settings of the scene; None: none.
            global_step: the number of the step, at which charts show it; None: 0.
            walltime: when it happened, in seconds since 1970; None: now.
        """
        made = summary.mesh(tag, vertices, colors, faces, config_dict)
        self._add(made, global_step, walltime)

    def flush(self) -> None:
        """Wait until the files have all events."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Close the files; a further event opens them again."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
