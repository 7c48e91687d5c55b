"""Summaries, as TensorBoard's protocol buffers: each function makes one of a value.

Tags, tensors, arrays and numbers become `Summary` messages with the plugin that shows them.
"""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from google.protobuf import struct_pb2
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.plugins.hparams import metadata as hparams_words
from tensorboard.plugins.mesh import metadata as mesh_words
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from weft._typing import Shape
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import by_name
from weft.errors import ArgumentError, ArgumentTypeError
from weft.utils.tensorboard import pictures

if TYPE_CHECKING:
    from PIL.Image import Image

    from weft.utils.tensorboard.pictures import Boxes

MOST_THRESHOLDS = 127  # thresholds that TensorBoard's message holds
LEAST_COUNT = 1e-7  # the divisor of a rate if nothing was counted
# dtype -> its name in the message, the field that holds the values
_FIELDS = {
    "float16": ("DT_HALF", "half_val"),
    "bfloat16": ("DT_BFLOAT16", "half_val"),
    "float32": ("DT_FLOAT", "float_val"),
    "float64": ("DT_DOUBLE", "double_val"),
    "int8": ("DT_INT8", "int_val"),
    "uint8": ("DT_UINT8", "int_val"),
    "int16": ("DT_INT16", "int_val"),
    "int32": ("DT_INT32", "int_val"),
    "int64": ("DT_INT64", "int64_val"),
    "bool": ("DT_BOOL", "bool_val"),
    "complex64": ("DT_COMPLEX64", "scomplex_val"),
    "complex128": ("DT_COMPLEX128", "dcomplex_val"),
}


def make_np(x: object) -> np.ndarray[Any, Any]:
    """The values of a tensor, an array, a list or a number."""
    if isinstance(x, Tensor):
        return x.detach().numpy()
    return np.atleast_1d(np.asarray(x)) if np.isscalar(x) else np.asarray(x)


def _summary(tag: str, **value: object) -> Any:
    return Summary(value=[Summary.Value(tag=tag, **value)])


def _shown_by(plugin: str, content: bytes = b"") -> Any:
    data = SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    return SummaryMetadata(plugin_data=data)


def _tensor(dtype: str, shape: Shape, **values: object) -> Any:
    sizes = [TensorShapeProto.Dim(size=size) for size in shape]
    return TensorProto(dtype=dtype, tensor_shape=TensorShapeProto(dim=sizes), **values)


def scalar(
    name: str,
    tensor: object,
    collections: object = None,
    new_style: bool = False,
    double_precision: bool = False,
) -> Any:
    """A number; as a tensor in the new style."""
    value = make_np(tensor).squeeze()
    assert value.ndim == 0, f"Tensor should contain one element (0 dimensions), got {value.shape}"
    if not new_style:
        return _summary(name, simple_value=float(value))
    held = (
        TensorProto(double_val=[float(value)], dtype="DT_DOUBLE")
        if double_precision
        else TensorProto(float_val=[float(value)], dtype="DT_FLOAT")
    )
    return _summary(name, tensor=held, metadata=_shown_by("scalars"))


def tensor_proto(tag: str, tensor: Tensor) -> Any:
    """A tensor whole: up to 2 GB, of any type but the float8."""
    name = str(tensor.dtype).rpartition(".")[2]
    if name not in _FIELDS or tensor.numel() * tensor.itemsize >= 1 << 31:
        raise ArgumentError(
            f"{tag} has unsupported tensor dtype {tensor.dtype}",
            expected=f"less than 2 GB of {', '.join(_FIELDS)}",
            got=f"{tensor.dtype} of {tensor.numel()} elements",
            fix="log a part of it, or .float()",
        )
    dtype, field = _FIELDS[name]
    made = _tensor(dtype, tensor.shape, **{field: _values_of(tensor, field)})
    return _summary(tag, tensor=made, metadata=_shown_by("tensor"))


def _values_of(tensor: Tensor, field: str) -> list[Any]:
    flat = tensor.detach().flatten()
    if field == "half_val":  # two bytes each, as an integer
        return [int(bits) & 0xFFFF for bits in flat.view(by_name("int16")).tolist()]
    if field.endswith("complex_val"):
        return [part for value in flat.tolist() for part in (value.real, value.imag)]
    return list(flat.tolist())


def histogram_raw(
    name: str,
    min: float,
    max: float,
    num: int,
    sum: float,
    sum_squares: float,
    bucket_limits: object,
    bucket_counts: object,
) -> Any:
    """A histogram that was counted elsewhere."""
    made = HistogramProto(
        min=min,
        max=max,
        num=num,
        sum=sum,
        sum_squares=sum_squares,
        bucket_limit=bucket_limits,
        bucket=bucket_counts,
    )
    return _summary(name, histo=made)


def histogram(name: str, values: Sequence[object], bins: Any, max_bins: int | None = None) -> Any:
    """A histogram: the number of values in each bin."""
    return _summary(name, histo=make_histogram(make_np(values).astype(float), bins, max_bins))


def make_histogram(
    values: np.ndarray[Any, Any], bins: object, max_bins: int | None = None
) -> HistogramProto:
    """The message of a histogram of an array. Errors: ValueError where it has no element."""
    flat = values.reshape(-1)
    if flat.size == 0:
        raise ArgumentError(
            "The input has no element.",
            expected="values to count",
            got="none",
            fix="log the histogram only where there are values",
        )
    counts, edges = np.histogram(flat, bins=cast("Sequence[float]", bins))
    if max_bins is not None and len(counts) > max_bins:
        counts, edges = _coarser(counts, edges, len(counts) // max_bins)
    filled = np.flatnonzero(counts)
    first, last = (int(filled[0]), int(filled[-1])) if filled.size else (0, 0)
    # One bin before the first that holds something: TensorBoard draws from its upper end.
    before = counts[first - 1 : first] if first > 0 else np.zeros(1, counts.dtype)
    return HistogramProto(
        min=flat.min(),
        max=flat.max(),
        num=len(flat),
        sum=flat.sum(),
        sum_squares=flat.dot(flat),
        bucket_limit=edges[first : last + 2].tolist(),
        bucket=np.concatenate([before, counts[first : last + 1]]).tolist(),
    )


def _coarser(counts: Any, edges: Any, together: int) -> tuple[Any, Any]:
    """Bins put together, so many at a time."""
    rest = -len(counts) % together
    sums = np.pad(counts, (0, rest)).reshape(-1, together).sum(-1)
    return sums, np.append(edges[:-1:together], edges[-1])


def image(tag: str, tensor: Tensor, rescale: float = 1, dataformats: str = "NCHW") -> Any:
    """A picture, or several in a grid."""
    shown = pictures.as_bytes(pictures.convert_to_HWC(make_np(tensor), dataformats))
    return _summary(tag, image=make_image(shown, rescale))


def image_boxes(
    tag: str,
    tensor_image: object,
    tensor_boxes: object,
    rescale: float = 1,
    dataformats: str = "CHW",
    labels: Sequence[str] | None = None,
) -> Any:
    """A picture with boxes."""
    shown = pictures.as_bytes(pictures.convert_to_HWC(make_np(tensor_image), dataformats))
    return _summary(tag, image=make_image(shown, rescale, make_np(tensor_boxes), labels))


def make_image(
    tensor: np.ndarray[Any, Any],
    rescale: float = 1,
    rois: Boxes | None = None,
    labels: Sequence[str] | None = None,
) -> Summary.Image:
    """The message of a picture (H, W, C) of bytes, with boxes drawn around `rois`."""
    height, width, channels = tensor.shape
    png = pictures.png(tensor, rescale, rois, labels)
    return Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=png)


def draw_boxes(disp_image: Image, boxes: Boxes, labels: Sequence[str] | None = None) -> Image:
    """A picture of Pillow with red boxes, each (left, top, right, bottom)."""
    pictures.draw_boxes(disp_image, boxes, labels)
    return disp_image


def half_to_int(f: float) -> int:
    """The bits of a number of single precision, as an integer."""
    return int(np.float32(f).view(np.int32))


def int_to_half(i: int) -> float:
    """The number of single precision that has the bits of an integer."""
    return float(np.int32(i).view(np.float32))


def video(tag: str, tensor: Tensor, fps: float = 4) -> Any:
    """A film, as a GIF."""
    frames = pictures.as_bytes(pictures.frames_of(make_np(tensor)))
    return _summary(tag, image=make_video(frames, fps))


def make_video(tensor: np.ndarray[Any, Any], fps: float) -> Summary.Image:
    """The message of a film of frames (T, H, W, C) of bytes."""
    _, height, width, channels = tensor.shape
    return Summary.Image(
        height=height,
        width=width,
        colorspace=channels,
        encoded_image_string=pictures.gif(tensor, fps),
    )


def audio(tag: str, tensor: Tensor, sample_rate: int = 44100) -> Any:
    """A sound of one channel, as a WAV file of 16 bits."""
    sound = make_np(tensor).squeeze().clip(-1, 1)
    assert sound.ndim == 1, "input tensor should be 1 dimensional."
    sound = (sound * np.iinfo(np.int16).max).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(sample_rate)
        out.writeframes(sound.tobytes())
    made = Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=len(sound),
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )
    return _summary(tag, audio=made)


def text(tag: str, text: str) -> Any:
    """A text."""
    held = _tensor("DT_STRING", (1,), string_val=[text.encode()])
    shown = _shown_by("text", TextPluginData(version=0).SerializeToString())
    return _summary(f"{tag}/text_summary", metadata=shown, tensor=held)


def custom_scalars(layout: dict[str, dict[str, list[object]]]) -> Any:
    """The layout of charts: the tags that each shows."""
    categories = [
        layout_pb2.Category(title=title, chart=[_chart(*chart) for chart in charts.items()])
        for title, charts in layout.items()
    ]
    told = layout_pb2.Layout(category=categories).SerializeToString()
    held = _tensor("DT_STRING", (), string_val=[told])
    return _summary("custom_scalars__config__", tensor=held, metadata=_shown_by("custom_scalars"))


def _chart(title: str, told: list[Any]) -> Any:
    kind, tags = told
    if kind != "Margin":
        return layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=tags))
    assert len(tags) == 3, f"Expected 3 tags, got {len(tags)}."
    value, lower, upper = tags
    line = layout_pb2.MarginChartContent.Series(value=value, lower=lower, upper=upper)
    return layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[line]))


def pr_curve(
    tag: str, labels: object, predictions: object, num_thresholds: int = 127, weights: object = None
) -> Any:
    """Precision and recall at thresholds."""
    count = min(num_thresholds, MOST_THRESHOLDS)
    tp, fp, tn, fn, precision, recall = compute_curve(labels, predictions, count, weights)
    return pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, count)


def pr_curve_raw(
    tag: str,
    tp: object,
    fp: object,
    tn: object,
    fn: Callable[..., object],
    precision: object,
    recall: object,
    num_thresholds: int = 127,
    weights: object = None,
) -> Any:
    """Precision and recall that were counted elsewhere."""
    rows = np.stack([make_np(row) for row in (tp, fp, tn, fn, precision, recall)])
    count = min(num_thresholds, MOST_THRESHOLDS)
    told = PrCurvePluginData(version=0, num_thresholds=count).SerializeToString()
    held = _tensor("DT_FLOAT", rows.shape, float_val=rows.reshape(-1).tolist())
    return _summary(tag, metadata=_shown_by("pr_curves", told), tensor=held)


def compute_curve(
    labels: Any, predictions: Any, num_thresholds: int = 127, weights: object = None
) -> Any:
    """True and false positives, true and false negatives, precision and recall at each threshold."""
    weights = 1.0 if weights is None else make_np(weights)
    places = np.int32(np.floor(predictions * (num_thresholds - 1)))
    truth = labels.astype(np.float64)

    def at_least(weight: Tensor) -> Any:
        span = (0, num_thresholds - 1)
        counts, _ = np.histogram(places, num_thresholds, span, weights=weight)
        return counts[::-1].cumsum()[::-1]

    tp, fp = at_least(truth * weights), at_least((1.0 - truth) * weights)
    tn, fn = fp[0] - fp, tp[0] - tp
    precision = tp / np.maximum(LEAST_COUNT, tp + fp)
    return np.stack((tp, fp, tn, fn, precision, tp / np.maximum(LEAST_COUNT, tp + fn)))


def mesh(
    tag: str,
    vertices: object,
    colors: object,
    faces: object,
    config_dict: dict[str, object] | None,
    display_name: str | None = None,
    description: str | None = None,
) -> Any:
    """Points in space, their colours, the triangles between them: a value each."""
    config = "{}" if config_dict is None else json.dumps(config_dict, sort_keys=True)
    parts = (
        (vertices, MeshPluginData.VERTEX),
        (faces, MeshPluginData.FACE),
        (colors, MeshPluginData.COLOR),
    )
    given = [(make_np(part), content) for part, content in parts if part is not None]
    mask = mesh_words.get_components_bitmask([content for _, content in given])
    values = []
    for part, content in given:
        told = mesh_words.create_summary_metadata(
            tag, display_name, content, mask, part.shape, description, json_config=config
        )
        held = _tensor("DT_FLOAT", part.shape, float_val=part.reshape(-1).tolist())
        name = mesh_words.get_instance_name(tag, content)
        values.append(Summary.Value(tag=name, tensor=held, metadata=told))
    return Summary(value=values)


def hparams(
    hparam_dict: dict[str, object],
    metric_dict: dict[str, object],
    hparam_domain_discrete: dict[str, list[object]] | None = None,
) -> tuple[Any, Any, Any]:
    """Hyperparameters and metrics: the experiment, the start of a session, and its end."""
    domains = hparam_domain_discrete or {}
    _check_hparams(hparam_dict, metric_dict, domains)
    start, told = plugin_data_pb2.SessionStartInfo(), []
    for name, value in hparam_dict.items():
        if value is None:
            continue
        field, dtype = _field_of(name, value)
        value = float(value.item()) if isinstance(value, Tensor) else value
        start.hparams[name].CopyFrom(struct_pb2.Value(**{field: value}))
        listed = [struct_pb2.Value(**{field: choice}) for choice in domains.get(name, [])]
        domain = struct_pb2.ListValue(values=listed) if name in domains else None
        kind = api_pb2.DataType.Value(dtype)
        told.append(api_pb2.HParamInfo(name=name, type=kind, domain_discrete=domain))
    metrics = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in metric_dict]
    experiment = api_pb2.Experiment(hparam_infos=told, metric_infos=metrics)
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.Status.Value("STATUS_SUCCESS"))
    return (
        _session(hparams_words.EXPERIMENT_TAG, experiment=experiment),
        _session(hparams_words.SESSION_START_INFO_TAG, session_start_info=start),
        _session(hparams_words.SESSION_END_INFO_TAG, session_end_info=end),
    )


def _session(tag: str, **part: object) -> Any:
    version = hparams_words.PLUGIN_DATA_VERSION
    data = plugin_data_pb2.HParamsPluginData(version=version, **part).SerializeToString()
    return _summary(tag, metadata=_shown_by(hparams_words.PLUGIN_NAME, data))


def _field_of(name: str, value: object) -> tuple[str, str]:
    """The field for a hyperparameter and its type. A bool is a number, as it is in Python."""
    if isinstance(value, int | float | Tensor):
        return "number_value", "DATA_TYPE_FLOAT64"
    if isinstance(value, str):
        return "string_value", "DATA_TYPE_STRING"
    raise ArgumentError(
        "value should be one of int, float, str, bool, or torch.Tensor",
        expected="hyperparameters of these types",
        got=f"{name}: {type(value).__name__}",
        fix=f"pass str(...) for {name}",
    )


def _check_hparams(values: Any, metrics: object, domains: Any) -> None:
    for name, given in (("hparam_dict", values), ("metric_dict", metrics)):
        if not isinstance(given, dict):
            raise ArgumentTypeError(
                f"parameter: {name} should be a dictionary, nothing logged.",
                expected="a dictionary",
                got=type(given).__name__,
                fix=f"pass {name}=dict(...)",
            )
    for name, listed in domains.items():
        if (
            name not in values
            or not isinstance(listed, list)
            or not all(isinstance(one, type(values[name])) for one in listed)
        ):
            raise ArgumentTypeError(
                f"parameter: hparam_domain_discrete[{name}] should be a list of same type as hparam_dict[{name}].",
                expected="a list of values for each hyperparameter in hparam_domain_discrete",
                got=f"{name}: {listed!r}",
                fix="list values of the hyperparameter's own type",
            )
