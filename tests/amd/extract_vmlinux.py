"""extract_vmlinux.py BZIMAGE OUT: the ELF kernel inside a bzImage.  QEMU boots it by its PVH note: nothing to decompress."""

import gzip
import lzma
import struct
import subprocess
import sys


def main() -> None:
    with open(sys.argv[1], "rb") as f:
        image = f.read()
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start : start + length]
    if payload[:4] == b"\x7fELF":
        kernel = payload
    elif payload[:6] == b"\xfd7zXZ\0":
        kernel = lzma.LZMADecompressor().decompress(payload)
    elif payload[:2] == b"\x1f\x8b":
        kernel = gzip.decompress(payload)
    elif payload[:4] == b"\x02\x21\x4c\x18":
        # The last four bytes are the length that the build appends, not a part of the lz4 stream.
        kernel = subprocess.run(["lz4", "-dc"], input=payload[:-4], stdout=subprocess.PIPE).stdout
    elif payload[:4] == b"\x28\xb5\x2f\xfd":
        kernel = subprocess.run(["zstd", "-dc"], input=payload[:-4], stdout=subprocess.PIPE).stdout
    else:
        sys.exit(f"{sys.argv[1]}: unknown compression {payload[:6].hex()}")
    if kernel[:4] != b"\x7fELF":
        sys.exit(f"{sys.argv[1]}: no ELF kernel came out")
    with open(sys.argv[2], "wb") as f:
        f.write(kernel)


main()
