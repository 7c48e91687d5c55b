"""More programs: packages that bring a type of tensors, a loop or an optimizer of their own."""

from __future__ import annotations

from typing import Any

from table import program


@program("torchvision: tv_tensors, transforms.v2", "torchvision")
def _marked(source: Any) -> Any:
    import torch
    from torch.nn import functional
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    change = v2.Compose(
        [v2.RandomHorizontalFlip(1.0), v2.Resize((16, 16)), v2.Normalize([0.5] * 3, [0.2] * 3)]
    )
    image = tv_tensors.Image(source.normal(3, 32, 32))
    boxes = tv_tensors.BoundingBoxes(source.below(16, 2, 4), format="XYWH", canvas_size=(32, 32))
    image, boxes = change(image, boxes)
    assert type(boxes) is tv_tensors.BoundingBoxes
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.LazyLinear(8)
    )
    goal = boxes.flatten().to(torch.get_default_dtype()) / 16
    model(image[None])
    return model, lambda: functional.mse_loss(model(image[None])[0], goal)
