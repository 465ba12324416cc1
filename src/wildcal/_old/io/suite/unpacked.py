"""One member of a .npz, unpacked as far as it is read.

`ZipFile.open` takes a tenth of a millisecond for each member, ten times what it takes to unpack the
header of an array, and a suite has hundreds of them.
"""

import os
import struct
import zipfile
import zlib
from typing import IO

# Of the header in front of a member: its first bytes, what of its flags says that it is encrypted,
# and where the lengths of what follows it are.
_SIGNATURE = b"PK\x03\x04"
_ENCRYPTED = 0x1
_LENGTHS = struct.Struct("<HH")
_LOCAL_HEADER = 30


class Unpacked:
    """The bytes of a member in their order; never more than the list of members says."""

    def __init__(self, file: IO[bytes], info: zipfile.ZipInfo, most: int = -1) -> None:
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("its compression is unknown")
        if info.flag_bits & _ENCRYPTED:
            raise ValueError("it is encrypted")
        file.seek(info.header_offset)
        head = file.read(_LOCAL_HEADER)
        if len(head) < _LOCAL_HEADER or not head.startswith(_SIGNATURE):
            raise ValueError("the list of members leads to something else")
        file.seek(sum(_LENGTHS.unpack_from(head, 26)), 1)
        start = file.tell()
        size = min(info.compress_size, file.seek(0, os.SEEK_END) - start)  # a claim takes no memory
        file.seek(start)
        self._packed = file.read(size if most < 0 else min(size, most))
        self._inflate = zlib.decompressobj(-15) if info.compress_type else None
        self._left, self._sum, self._wanted = info.file_size, 0, info.CRC

    def read(self, n: int) -> bytes:
        """Return the next n bytes, fewer at the end."""
        n = min(n, self._left)
        if self._inflate is None:
            piece, self._packed = self._packed[:n], self._packed[n:]
        else:
            piece = self._inflate.decompress(self._packed, n) if n else b""
            self._packed = self._inflate.unconsumed_tail
        self._left -= len(piece)
        self._sum = zlib.crc32(piece, self._sum)
        return piece

    def finish(self) -> None:
        """Raise unless what was read is the whole member with the check sum it was written with."""
        if self._left or self._sum != self._wanted:
            raise ValueError("its check sum is wrong")
