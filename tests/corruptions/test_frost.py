"""Frost textures: those of the package, and those of a folder."""

import numpy as np
import pytest
from PIL import Image

from wildcal.corruptions import corrupt
from wildcal.corruptions.frost import load_textures, own_textures

FLAT = np.zeros((50, 32, 32, 3), np.uint8)


def test_textures_have_the_colors_of_ice():
    textures = own_textures()
    assert [t.shape for t in textures] == [
        (600, 900, 3),
        (315, 560, 3),
        (315, 560, 3),
        (350, 527, 3),
        (495, 660, 3),
    ]
    for texture in textures:
        red, green, blue = (texture[..., i].astype(int) for i in range(3))
        assert (blue >= green).all()
        assert (green >= red).all()
        assert 80 < texture.mean() < 160
        assert texture.std() > 50  # bright crystals and dark gaps
        assert np.quantile(red, 0.1) < 40 < 180 < np.quantile(red, 0.95)
    assert own_textures() is textures  # drawn once


def test_the_first_five_files_by_name_are_used(tmp_path):
    for i in range(6):
        picture = np.full((300, 400, 4 if i < 3 else 3), 40 * (i + 1), np.uint8)
        if i < 3:
            picture[..., 3] = 7  # transparency is left out, not blended in
        Image.fromarray(picture).save(tmp_path / f"frost{i + 1}.png")
    (tmp_path / "README.txt").write_text("not a picture")
    assert [int(t[0, 0, 0]) for t in load_textures(tmp_path)] == [40, 80, 120, 160, 200]
    got = corrupt(FLAT, "frost", 2, frost_textures=tmp_path)
    assert set(np.unique(got)) == {12, 24, 36, 48, 60}  # 0.3 of each
    assert len(np.unique(got.reshape(50, -1), axis=0)) == 5


def test_textures_grow_with_large_images():
    got = corrupt(np.zeros((1, 700, 1000, 3), np.uint8), "frost", 5)
    assert got.std() > 30


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must be a folder with .png or .jpg pictures"):
        corrupt(FLAT, "frost", 1, frost_textures=tmp_path)


def test_less_of_the_image_is_left_with_severity(make):
    images = make(100)
    left = [
        np.corrcoef(images.ravel(), corrupt(images, "frost", s).ravel())[0, 1] for s in range(1, 6)
    ]
    # 3 and 4 add the same ice to nearly the same image, so these two may tie.
    assert left[0] > left[1] > max(left[2:4]) >= min(left[2:4]) > left[4]
