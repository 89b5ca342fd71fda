"""A temporary folder that is full: everything that keeps bytes there says so, and leaves nothing behind."""

from pathlib import Path

from tests.support.disk import on_a_disk_of_its_own

PROGRAM = """
import asyncio, io, os, sys
import pytest
os.environ["TMPDIR"] = str(disk)
from graveler.api.forms import uploaded
from graveler.cli.local_files import whole
from graveler.errors import UnavailableError
from graveler.lake.opening.location import FolderLake
from graveler.remote.connection import Connection
from graveler.remote.repository import RemoteRepository
from graveler.sdk.lake import Lake
from graveler.server.bodies import SpoolRoom, read_body
from graveler.server.threads import Threads
from graveler.system.temporary_files import own_folder
from tests.lake.support import NAME, World
from tests.remote.scripted import Reply, scripted
from tests.server.support import arriving, request

LARGE = os.urandom(9 << 20)
main = Lake(World().lake()).repository(NAME).branch("main")
folder = own_folder()
listing = disk.parent / "listing.csv"
with listing.open("w") as file:
    file.write("path,physical_address,size,checksum\\n")
    for number in range(5000):
        file.write(f"{number:05},s3://b/{os.urandom(8).hex()},1,{os.urandom(16).hex()}\\n")
form = disk / "form"
form.write_bytes(b'--x\\r\\ncontent-disposition: form-data; name="content"\\r\\n\\r\\n' + bytes(100_000) + b"\\r\\n--x--\\r\\n")
with open(disk / "fill", "wb") as file:
    file.write(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize))

def write_bytes():
    with main.object("a").writer("wb") as file:
        file.write(LARGE)

def write_little_by_little():
    with main.object("a").writer("wb") as file:
        for number in range(100):
            file.write(LARGE[:1000])

def write_at_the_end():
    with main.object("a").writer("wb") as file:
        file.write(LARGE[:1000])

def write_text():
    with main.object("a").writer("w") as file:
        file.write("x" * 1_000_000)

def write_text_at_the_end():
    with main.object("a").writer("w") as file:
        file.write("x")

def write_and_return():
    with main.object("a").writer("wb") as file:
        file.write(LARGE[:10])
        file.seek(0)

def put_stdin():
    sys.stdin = io.TextIOWrapper(io.BytesIO(LARGE))
    with whole(Path("-")):
        pass

def receive_body():
    async def reading():
        room = SpoolRoom(1 << 30)
        async with read_body(request("POST", "/x", LARGE), arriving(LARGE), 1 << 30, 100, room, Threads("d", 1)):
            pass
    asyncio.run(reading())

def receive_form():
    with uploaded("multipart/form-data; boundary=x", form):
        pass

def send_listing():
    with scripted() as script:
        script.will(Reply(200, b'{"id": "r", "storage_namespace": "s3://r", "default_branch": "main", "creation_date": 0}'))
        RemoteRepository(Connection(script.url, "key", "secret"), "r").import_listing("main", listing)

verbs = (
    write_bytes, write_little_by_little, write_at_the_end, write_text, write_text_at_the_end, write_and_return, put_stdin,
    receive_body, receive_form, send_listing,
)
for verb in verbs:
    try:
        verb()
    except UnavailableError as error:
        said = str(error)
        assert said.endswith("(set TMPDIR to use another one) failed: the disk is full; free some space, then try again"), said
        assert f"in the temporary folder {str(disk)!r}" in said, said
    except OSError as error:
        print(verb.__name__, "says", repr(error))
    else:
        print(verb.__name__, "says nothing")
    left = sorted(path.name for path in (*folder.iterdir(), *disk.iterdir()) if path not in (folder, form, disk / "fill"))
    if left:
        print(verb.__name__, "leaves", left)
if list(main.objects()):
    print("something is staged")
print("done")
"""


def test_a_full_temporary_folder_is_an_error_that_names_it_and_nothing_is_left(tmp_path: Path) -> None:
    assert on_a_disk_of_its_own(PROGRAM, tmp_path / "disk", size="512k") == "done\n"
