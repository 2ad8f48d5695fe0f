"""Threads of a process that serves share few pools of memory."""

import subprocess
import sys

import pytest

COUNT_POOLS = """
import ctypes, sys, tempfile, threading
from setwise.service.process import share_memory_pools

if sys.argv[1] == "shared":
    share_memory_pools()
held = threading.Barrier(17)

def allocate():
    kept = [bytearray(5_000) for _ in range(100)]
    held.wait()
    held.wait()
    del kept

threads = [threading.Thread(target=allocate) for _ in range(16)]
for thread in threads:
    thread.start()
held.wait()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
libc.fclose.argtypes = [ctypes.c_void_p]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
with tempfile.NamedTemporaryFile() as file:
    stream = libc.fopen(file.name.encode(), b"w")
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    print(file.read().count(b"<heap nr="))
held.wait()
"""


def pools(how: str) -> int:
    told = subprocess.run(
        [sys.executable, "-c", COUNT_POOLS, how], capture_output=True, text=True, check=True
    )
    return int(told.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has such pools")
def test_threads_share_few_pools_of_memory_that_would_each_have_one() -> None:
    assert pools("shared") == 2
    assert pools("left alone") > 2
