"""How pictures become what a network reads: presets by hand, options that replace their parts."""

import numpy as np
import pytest
from PIL import Image

from wildcal._old.vision.batches import Normalizer, batch_size, filled
from wildcal._old.vision.datasets import image_folder, imagenet, imagenet_wnids, textures
from wildcal._old.vision.preprocess import PRESETS, Preprocess, make_preprocess

PIXELS = np.array([[0, 128, 255]], np.uint8)  # red, green, blue


def test_the_published_presets_by_hand():
    torchvision, timm, caffe = (PRESETS[n] for n in ("torchvision", "timm-0.5", "caffe"))
    assert (torchvision.resize, torchvision.crop, torchvision.interpolation) == (
        *(256, 224),
        "bilinear",
    )
    assert (timm.resize, timm.crop, timm.interpolation) == (248, 224, "bicubic")
    np.testing.assert_allclose(timm.normalize(PIXELS), [[-1, 128 / 127.5 - 1, 1]], atol=1e-6)
    red, green, blue = (0 - 0.485) / 0.229, (128 / 255 - 0.456) / 0.224, (1 - 0.406) / 0.225
    np.testing.assert_allclose(torchvision.normalize(PIXELS), [[red, green, blue]], rtol=1e-5)
    # Blue first, and the mean color taken off levels from 0 to 255.
    wanted = [[255 - 103.939, 128 - 116.779, 0 - 123.68]]
    np.testing.assert_allclose(caffe.normalize(PIXELS), wanted, rtol=1e-5)


def test_levels_around_127():
    """As EfficientNet-lite wants them: (x - 127) / 128."""
    look = make_preprocess("imagenet", scale=255.0, mean=(127.0,) * 3, std=(128.0,) * 3)
    np.testing.assert_allclose(look.normalize(PIXELS), [[-127 / 128, 1 / 128, 1]], rtol=1e-5)


@pytest.mark.parametrize(
    ("dataset", "options", "wanted"),
    [
        ("imagenet", {}, (256, 224)),
        ("imagenet", {"crop": 112}, (128, 112)),
        ("imagenet", {"preset": "timm-0.5", "crop": 384}, (425, 384)),
        ("imagenet", {"resize": 240}, (240, 224)),
        ("folders", {}, (224, 224)),
        ("folders", {"crop": 64}, (64, 64)),
        ("folders", {"preset": "torchvision"}, (256, 224)),
        ("cifar10", {}, (32, 32)),
    ],
)
def test_margins(dataset, options, wanted):
    look = make_preprocess(dataset, **options)
    assert (look.resize, look.crop) == wanted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resize": 200}, "resize must be at least crop = 224, got 200"),
        ({"interpolation": "box"}, "interpolation must be"),
        ({"preset": "keras"}, "preprocess must be"),
        ({"channels": "gbr"}, "channels must be"),
        ({"scale": 0.0}, "scale must be above 0"),
        ({"std": (1.0, 0.0, 1.0)}, "std above 0"),
    ],
)
def test_wrong_wishes(options, message):
    with pytest.raises(ValueError, match=message):
        make_preprocess("imagenet", **options)


def picture(folder, name, seed=0):
    folder.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / name)
    return pixels


@pytest.mark.parametrize("kind", ["nearest", "bilinear", "bicubic", "lanczos"])
def test_pictures_are_cut_out_as_declared(tmp_path, kind):
    """The short side of 60 to 40, the long one to 60, then the middle 32 x 32."""
    pixels = picture(tmp_path / imagenet_wnids()[7], "a.png")
    look = make_preprocess("imagenet", crop=32, resize=40, interpolation=kind)
    (found,) = imagenet(tmp_path, **look.pictures).read(slice(None))
    whole = Image.fromarray(pixels).resize((60, 40), Image.Resampling[kind.upper()])
    np.testing.assert_array_equal(found, np.asarray(whole)[4:36, 14:46])
    (again,) = image_folder(tmp_path, **look.pictures).read(slice(None))
    np.testing.assert_array_equal(found, again)


def test_textures_have_the_margin_too(tmp_path):
    picture(tmp_path / "banded", "a.png")
    wide = textures(tmp_path, 32).read(slice(None))
    narrow = textures(tmp_path, 32, resize=40).read(slice(None))
    assert wide.shape == narrow.shape
    assert (wide != narrow).any()


def test_blocks_are_filled_with_the_last_image():
    images = np.arange(5, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    np.testing.assert_array_equal(filled(images, 4)[:, 0, 0, 0], [0, 1, 2, 3, 4, 4, 4, 4])
    assert filled(images, 5) is images
    assert [batch_size(side) for side in (32, 64, 224, 448, 2000)] == [32, 32, 8, 2, 1]


def test_declared_once():
    look = Preprocess(crop=32, resize=40, normalize=Normalizer((0.5,) * 3, (0.5,) * 3))
    assert look.pictures == {"size": 32, "resize": 40, "interpolation": "bilinear"}
