"""A Millrace producer in Python: makes samples for the trainer that starts this program.

    from millrace_producer import producer

    @producer
    def make(epoch, index, seed):
        rng = numpy.random.default_rng(seed)
        return image, label                # arrays, in the order of the trainer's fields

The decorated function is served when its file is the program that was started; imported from
elsewhere it is just the function. It must depend on its arguments alone: the same claim may go
to another process. An exception is a bad sample; its text should name the file. What takes
longer than the trainer's deadline (60 s unless it says otherwise) calls `beat()` now and then.

Needs Linux, Python 3.9 or later and numpy. The protocol is described in PROTOCOL.md.
"""

import mmap
import os
import socket
import struct
import sys
import time
import traceback
import zlib

import numpy

__all__ = ["producer", "serve", "beat", "Field"]

MAGIC, VERSION = b"MRCE", 1
HELLO, WELCOME, CLAIM, SAMPLE, BAD, BEAT, STOP = range(1, 8)
HEADER = struct.Struct("<4sHHQIII")  # and the checksum of these 28 bytes
MAX_BODY = 65536
BEAT_EVERY = 0.005
DTYPES = {1: "<u1", 2: "<i1", 3: "<u2", 4: "<i2", 5: "<u4", 6: "<i4", 7: "<u8", 8: "<i8",
          9: "<f4", 10: "<f8"}


class Field:
    """One part of a sample: name, numpy type, shape."""

    def __init__(self, name, code, shape):
        self.name, self.code, self.shape = name, code, shape
        self.dtype = numpy.dtype(DTYPES[code])
        self.bytes = self.dtype.itemsize * int(numpy.prod(shape, dtype=numpy.int64))

    def __repr__(self):
        return f"{self.name}: {self.dtype.name}{list(self.shape)}"


class LinkError(Exception):
    """The trainer broke a rule, or there is none."""


class _Link:
    """The socket to the trainer, and frames on it."""

    def __init__(self, sock):
        self.sock = sock
        self.received = bytearray()
        self.sequence = 0
        self.beaten = time.monotonic()

    def send(self, kind, sequence, body=b""):
        body = body[:MAX_BODY]
        header = HEADER.pack(MAGIC, VERSION, kind, sequence, len(body), 0, zlib.crc32(body))
        self.sock.sendall(header + struct.pack("<I", zlib.crc32(header)) + body)

    def _fill(self, wanted, read):
        while len(self.received) < wanted:
            got = read()
            if not got:
                raise EOFError
            self.received += got

    def next(self, read=None):
        """Kind, sequence and body of the next frame; EOFError when the trainer has ended."""
        read = read or (lambda: self.sock.recv(MAX_BODY))
        self._fill(32, read)
        header = bytes(self.received[:28])
        magic, version, kind, sequence, length, _, checksum = HEADER.unpack(header)
        if magic != MAGIC or version != VERSION:
            raise LinkError(f"a frame of {magic!r}, version {version}")
        if struct.unpack_from("<I", self.received, 28)[0] != zlib.crc32(header):
            raise LinkError("a frame header with a wrong checksum")
        if length > MAX_BODY:
            raise LinkError(f"a frame of {length} bytes")
        self._fill(32 + length, read)
        body = bytes(self.received[32:32 + length])
        if zlib.crc32(body) != checksum:
            raise LinkError("a frame body with a wrong checksum")
        del self.received[:32 + length]
        return kind, sequence, body

    def welcome(self):
        """The first frame, and the descriptor that comes with it."""
        memory = []

        def read():
            got, descriptors, _, _ = socket.recv_fds(self.sock, MAX_BODY, 1)
            memory.extend(descriptors)
            return got

        kind, _, body = self.next(read)
        if kind != WELCOME or not memory:
            raise LinkError("no welcome with a descriptor")
        return body, memory[0]


def _fields(body):
    slot_bytes, slots, flags, count = struct.unpack_from("<QIII", body)
    fields, at = [], 20
    for _ in range(count):
        code, rank, name = struct.unpack_from("<BBH", body, at)
        shape = struct.unpack_from(f"<{rank}I", body, at + 4)
        at += 4 + 4 * rank
        fields.append(Field(body[at:at + name].decode(), code, shape))
        at += name
    return slot_bytes, slots, flags & 1, fields


_link = None


def beat():
    """Says that the work on this sample goes on; its deadline begins anew."""
    if _link is not None and time.monotonic() - _link.beaten >= BEAT_EVERY:
        _link.beaten = time.monotonic()
        _link.send(BEAT, _link.sequence)


def _store(made, fields, views):
    """Writes what was made into a slot."""
    arrays = made if isinstance(made, (tuple, list)) else (made,)
    if len(arrays) != len(fields):
        raise ValueError(f"{len(arrays)} arrays were made, the trainer wants {fields}")
    for array, field, view in zip(arrays, fields, views):
        array = numpy.asarray(array)
        if array.shape != field.shape or array.dtype != field.dtype.newbyteorder("="):
            raise ValueError(
                f"{array.dtype.name}{list(array.shape)} was made, the trainer wants {field}")
        view[...] = array


def _cause(error):
    line = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(line.filename)}:{line.lineno}"
    return f"{type(error).__name__}: {error} ({where})"


def serve(make, name="python"):
    """Makes samples by `make(epoch, index, seed)` until the trainer stops or ends."""
    global _link
    descriptor = os.dup(0)
    # What reads standard input must not get frames, and what this starts must not hold the link.
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    try:
        link = _Link(socket.socket(fileno=descriptor))
        body, memory = link.welcome()
    except OSError as error:
        raise LinkError(
            f"standard input is no link to a trainer, which has to start this program: {error}"
        ) from None
    except EOFError:
        return
    slot_bytes, slots, wants_checksum, fields = _fields(body)
    mapped = mmap.mmap(memory, slot_bytes * slots)
    os.close(memory)
    places, at = [], 0
    for field in fields:
        places.append(at)
        at += (field.bytes + 63) // 64 * 64
    told = b"".join(
        struct.pack(f"<BBH{len(field.shape)}I", field.code, len(field.shape), 0, *field.shape)
        for field in fields)
    payload = sum(field.bytes for field in fields)
    _link = link
    try:
        link.send(HELLO, 0, name.encode()[:256])
        while True:
            kind, sequence, body = link.next()
            if kind == STOP:
                return
            if kind != CLAIM:
                raise LinkError(f"a frame of kind {kind}")
            epoch, index, seed, slot = struct.unpack_from("<IIQI", body)
            link.sequence = sequence
            views = [
                numpy.ndarray(field.shape, field.dtype, mapped, slot * slot_bytes + place)
                for field, place in zip(fields, places)]
            try:
                _store(make(epoch, index, seed), fields, views)
            except Exception as error:  # whatever it is: the sample cannot be made
                link.send(BAD, sequence, _cause(error).encode(errors="replace"))
                continue
            checksum = 0
            if wants_checksum:
                for view in views:
                    checksum = zlib.crc32(view.tobytes(), checksum)
            head = struct.pack("<QII", payload, checksum, len(fields))
            link.send(SAMPLE, sequence, head + told)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    finally:
        _link = None


def producer(make):
    """Serves the function if its file is the program that was started."""
    if make.__module__ == "__main__":
        try:
            serve(make, os.path.basename(sys.argv[0]) or "python")
        except LinkError as error:
            sys.exit(f"{sys.argv[0]}: {error}")
        sys.exit(0)
    return make
