"""A file that was damaged or forged is refused in a sentence, or does no harm; it never gives another object."""

import pytest

import unpooled as up
from tests.models.fuzz_files import run, specimens
from unpooled._base import files
from unpooled._base.files import FileError


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return specimens(tmp_path_factory.mktemp("specimens"))


def test_damaged_and_forged_files_of_every_kind_are_refused_or_harmless(tmp_path):
    outcomes = run(600, 2, tmp_path)
    assert outcomes["damaged, refused"] + outcomes["damaged, harmless"] == 300
    assert outcomes["damaged, refused"] > 290
    assert outcomes["forged, refused"] > 150
    assert outcomes["forged, works"] > 20


def test_every_length_that_a_file_may_be_cut_to_is_refused(found, tmp_path):
    path = tmp_path / "cut"
    for specimen in found:
        for length in range(0, len(specimen.content), max(1, len(specimen.content) // 40)):
            path.write_bytes(specimen.content[:length])
            with pytest.raises(FileError):
                specimen.load(path)


def test_a_file_of_one_kind_is_not_read_as_another(found, tmp_path):
    path = tmp_path / "file"
    loaders = {"basis": up.bases.load, "summary": up.Summary.load, "model": up.load}
    loaders |= {"candidates": up.Candidates.load, "scores": up.Scores.load}
    for specimen in found:
        path.write_bytes(specimen.content)
        kind = files.read_any(path)[0]["kind"]
        for name, load in loaders.items():
            if name != kind:
                with pytest.raises(FileError, match=f"holds .*{kind} instead of .*{name}"):
                    load(path)


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F4", "I128"])
def test_arrays_of_a_type_that_numpy_does_not_have_are_refused(dtype, tmp_path):
    header = b'{"a": {"dtype": "%s", "shape": [8], "data_offsets": [0, 16]}}' % dtype.encode()
    path = tmp_path / "odd"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
    with pytest.raises(FileError, match="odd is not a file of unpooled"):
        files.read_any(path)


def test_a_header_that_is_deep_or_has_endless_numbers_is_refused(tmp_path):
    deep: object = 1
    for _ in range(200):
        deep = [deep]
    for value in (deep, 10**400, -(2**64)):
        files.write(tmp_path / "odd", "summary", {"n_rows": value}, {})
        with pytest.raises(FileError, match="nested too deep or has numbers too large"):
            files.read_any(tmp_path / "odd")


def test_a_newer_format_asks_for_a_newer_library(found, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(found[0].content)
    header, arrays = files.read_any(path)
    files.write(path, "basis", header | {"format": 2}, arrays)
    with pytest.raises(FileError, match="has format 2 and this unpooled reads up to 1: install a newer unpooled"):
        up.bases.load(path)


def test_what_is_no_file_is_not_found(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(FileNotFoundError, match="does not exist, or is not a file"):
            files.read_any(path)
