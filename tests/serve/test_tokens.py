import pytest

import wildcal
from wildcal.cli.main import run


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "there is no token file {}; write one with a token a line. `python -c 'import"),
        ("folder", "cannot read the token file {}: Is a directory."),
        (b"\xff\xfe\x00", "cannot read the token file {}: it is not text."),
        (b"# none yet\n", "{} must hold a token a line, each of at least 16 ASCII characters. `p"),
        (b"short\n", "{} must hold a token a line"),
    ],
)
def test_files_without_tokens(scaled, tmp_path, capsys, content, text):
    wildcal.save(scaled, tmp_path / "ts.json")
    path = tmp_path / "tokens"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    assert run(["serve", str(tmp_path / "ts.json"), "--token-file", str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert text.format(path) in line
    assert "Errno" not in line
