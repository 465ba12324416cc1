"""ImageNet and its relatives: labels are places among the 1000 WordNet ids."""

import numpy as np
import pytest

from wildcal._old.core.errors import FileFormatError
from wildcal._old.vision.datasets import (
    imagenet,
    imagenet_a,
    imagenet_c,
    imagenet_r,
    imagenet_sketch,
    imagenet_wnids,
)

# tench, goldfish, toilet tissue: 0, 1 and 999.
IDS = ("n01440764", "n01443537", "n15075141")
RELATIVES = {
    "imagenet-r": (imagenet_r, "imagenet-r", "https://github.com/hendrycks/imagenet-r"),
    "imagenet-a": (imagenet_a, "imagenet-a", "https://github.com/hendrycks/natural-adv-examples"),
    "imagenet-sketch": (imagenet_sketch, "sketch", "https://github.com/HaohanWang/ImageNet-Sketch"),
    "imagenet-val": (imagenet, "val", "https://image-net.org"),
}


@pytest.fixture(autouse=True)
def _pillow(needs):
    needs("PIL")


def write(folder, ids=IDS, size=(40, 30), ending="JPEG"):
    from PIL import Image

    rng = np.random.default_rng(0)
    for wnid in ids:
        (folder / wnid).mkdir(parents=True)
        pixels = rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / wnid / f"picture_1.{ending}")


def test_the_ids():
    ids = imagenet_wnids()
    assert len(set(ids)) == 1000
    assert list(ids) == sorted(ids)
    assert [ids.index(wnid) for wnid in IDS] == [0, 1, 999]


@pytest.mark.parametrize("name", RELATIVES)
def test_layout(tmp_path, name):
    read, folder, _ = RELATIVES[name]
    write(tmp_path / folder, ending="JPEG" if "sketch" in name or "val" in name else "jpg")
    (tmp_path / folder / "README.txt").write_text("")
    for place in (tmp_path, tmp_path / folder):
        data = read(place, size=28)
        assert data.name == name
        assert data.labels.tolist() == [0, 1, 999]
        assert data.class_names == imagenet_wnids()
        part = name in ("imagenet-r", "imagenet-a")
        assert data.classes.tolist() == ([0, 1, 999] if part else list(range(1000)))
        assert (data.size, data.resize) == (28, 32)
        assert data.read(slice(None)).shape == (3, 28, 28, 3)
    assert (read(tmp_path).size, read(tmp_path).resize) == (224, 256)


@pytest.mark.parametrize("name", RELATIVES)
def test_missing(tmp_path, name):
    read, folder, url = RELATIVES[name]
    with pytest.raises(FileNotFoundError) as caught:
        read(tmp_path)
    assert f"looked for {tmp_path / folder}, {tmp_path}. It is published at {url};" in str(
        caught.value
    )


def test_an_unknown_id(tmp_path):
    write(tmp_path, (*IDS, "n99999999"))
    with pytest.raises(FileFormatError, match="n99999999 must be named by one of the 1000 WordNet"):
        imagenet(tmp_path)


def test_a_folder_that_is_no_class(tmp_path):
    write(tmp_path)
    (tmp_path / "backup").mkdir()
    with pytest.raises(FileFormatError, match="backup must be named.* Move it elsewhere"):
        imagenet_r(tmp_path)


def test_an_empty_class(tmp_path):
    write(tmp_path)
    (tmp_path / "n01484850").mkdir()
    with pytest.raises(FileFormatError, match="n01484850 must hold pictures"):
        imagenet(tmp_path)


@pytest.mark.parametrize("place", [".", "val"])
def test_flat_validation_pictures(tmp_path, place):
    home = tmp_path / place
    home.mkdir(exist_ok=True)
    (home / "ILSVRC2012_val_00000001.JPEG").write_bytes(b"")
    with pytest.raises(FileFormatError) as caught:
        imagenet(tmp_path)
    text = str(caught.value)
    assert text.startswith(f"{home} must hold one folder for each WordNet id")
    assert "ILSVRC2012_validation_ground_truth.txt" in text


@pytest.mark.parametrize("group", ["", "noise", "blur", "weather", "digital", "extra"])
def test_a_cell_of_imagenet_c(tmp_path, group):
    write(tmp_path / group / "fog" / "3", size=(224, 224))
    data = imagenet_c(tmp_path, "fog", 3)
    assert data.name == "imagenet-c-fog-3"
    assert data.labels.tolist() == [0, 1, 999]
    assert len(data.classes) == 1000
    # Published pictures have 224 x 224 pixels: read as they are.
    from PIL import Image

    expected = np.asarray(Image.open(data.folder / data.files[1]).convert("RGB"))
    assert np.array_equal(data.read(np.array([1]))[0], expected)
    assert imagenet_c(tmp_path, "fog", 3, size=64).read(slice(None)).shape == (3, 64, 64, 3)


def test_missing_cell(tmp_path):
    write(tmp_path / "fog" / "3")
    with pytest.raises(FileNotFoundError, match="https://zenodo.org/records/2235448") as caught:
        imagenet_c(tmp_path, "fog", 4)
    assert str(tmp_path / "weather" / "fog" / "4") in str(caught.value)
    with pytest.raises(ValueError, match="name must be one of"):
        imagenet_c(tmp_path, "haze", 4)
    with pytest.raises(ValueError, match="severity must be an integer from 1 to 5"):
        imagenet_c(tmp_path, "fog", 6)


def test_a_picture_cut_short_is_named(tmp_path):
    write(tmp_path)
    path = tmp_path / IDS[1] / "picture_1.JPEG"
    path.write_bytes(path.read_bytes()[:400])
    with pytest.raises(FileFormatError, match=f"cannot read {path}"):
        imagenet(tmp_path).read(slice(None))


def test_folders_named_by_the_number_of_the_class(tmp_path):
    """Sorted as numbers, and the same pictures and labels as under their WordNet ids."""
    write(tmp_path / "ids", [imagenet_wnids()[k] for k in (2, 10, 999)])
    write(tmp_path / "numbers", ["2", "10", "999"])
    ids, numbers = imagenet(tmp_path / "ids", size=28), imagenet(tmp_path / "numbers", size=28)
    assert numbers.labels.tolist() == ids.labels.tolist() == [2, 10, 999]
    np.testing.assert_array_equal(numbers.read(slice(None)), ids.read(slice(None)))
    assert numbers.class_names == imagenet_wnids()
    (tmp_path / "numbers" / "cats").mkdir()
    with pytest.raises(FileFormatError, match="cats must be named by the number of a class, 0 to"):
        imagenet(tmp_path / "numbers")
    with pytest.raises(FileNotFoundError, match="ImageNet was not found"):
        imagenet(tmp_path)
