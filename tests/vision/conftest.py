"""torchvision and timm can be imported by name in these tests, whatever torchvision was built for."""

from propml.vision.backbone import import_vision

import_vision()
