"""Receivers that misbehave, each in its own way, on raw sockets; repaired, they are what a receiver should be."""

import socket
import ssl
import struct
import threading
import time

import trustme

MIB = b"x" * (1 << 20)


def read_request(connection):
    """The body of one request."""
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = connection.recv(65536)
        if not chunk:
            raise ConnectionError("no request came")
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    (length,) = (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        chunk = connection.recv(65536)
        if not chunk:
            raise ConnectionError("half a request came")
        body += chunk
    return body


def wait_for_the_end(connection):
    """Until the service closes the connection."""
    while connection.recv(65536):
        pass


def trickle(connection, data):
    for byte in data:
        connection.sendall(bytes([byte]))
        time.sleep(1)


class Bad:
    """A receiver of its own kind on a port of its own, until it is `repaired`."""

    # The error and the status of each attempt.
    expected = ("timeout", None)
    over_tls = True

    def __init__(self, context, trap):
        self.context, self.trap = context, trap
        self.is_repaired, self.bodies = False, []
        self.requests, self.swallowed, self.longest = 0, 0, 0.0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}/"
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def name(self):
        return self.__doc__.split("\n")[0].rstrip(".")

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        begun = time.monotonic()
        is_repaired = self.is_repaired
        connection.settimeout(20)
        try:
            if is_repaired:
                connection = self.trusted.wrap_socket(connection, server_side=True)
                while True:
                    self.bodies.append(read_request(connection))
                    connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            if self.over_tls:
                connection = self.context.wrap_socket(connection, server_side=True)
            self.requests += 1
            self.misbehave(connection)
        except (OSError, ValueError):
            pass
        finally:
            if not is_repaired:
                self.longest = max(self.longest, time.monotonic() - begun)
            connection.close()

    def pour(self, connection, data=MIB):
        """Gigabytes, until the service has had enough."""
        sent = 0
        try:
            while sent < 4 << 30:
                sent += connection.send(data)
        finally:
            self.swallowed = max(self.swallowed, sent)

    def misbehave(self, connection):
        read_request(connection)
        wait_for_the_end(connection)


class NeverAnswers(Bad):
    """never answers."""


class NeverShakesHands(Bad):
    """accepts and says nothing, not even TLS."""

    over_tls = False

    def misbehave(self, connection):
        wait_for_the_end(connection)


class TricklesHeaders(Bad):
    """trickles its headers, a byte a second."""

    def misbehave(self, connection):
        read_request(connection)
        trickle(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


class TricklesBody(Bad):
    """trickles its body, a byte a second."""

    # It has said 200: how slowly it goes on does not matter.
    expected = (None, 200)

    def misbehave(self, connection):
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        trickle(connection, b"x" * 1000)


class RefusesWithGigabytes(Bad):
    """refuses with gigabytes."""

    expected = ("http", 500)

    def misbehave(self, connection):
        read_request(connection)
        connection.sendall(b"HTTP/1.1 500 Too Much\r\nContent-Length: 4294967296\r\n\r\n")
        self.pour(connection)


class EndlessHeaders(Bad):
    """answers gigabytes of headers."""

    expected = ("connect", None)

    def misbehave(self, connection):
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        self.pour(connection, b"".join(b"X-%d: %s\r\n" % (number, b"y" * 1000) for number in range(1000)))


class OneEndlessHeader(Bad):
    """answers one header of gigabytes."""

    expected = ("connect", None)

    def misbehave(self, connection):
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
        self.pour(connection)


class EndlessHints(Bad):
    """sends early hints without end."""

    def misbehave(self, connection):
        # Not at full speed: the service reads all of them until the time is over, and both of us would only burn.
        read_request(connection)
        while True:
            connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n" * 20)
            time.sleep(0.01)


class SpeaksAnotherLanguage(Bad):
    """answers what is no HTTP."""

    expected = ("connect", None)

    def misbehave(self, connection):
        read_request(connection)
        connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
        wait_for_the_end(connection)


class Resets(Bad):
    """resets the connection instead of an answer."""

    expected = ("connect", None)

    def misbehave(self, connection):
        read_request(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Redirects(Bad):
    """redirects to another receiver."""

    expected = ("http", 307)

    def misbehave(self, connection):
        read_request(connection)
        answer = f"HTTP/1.1 307 There\r\nLocation: {self.trap.url}/caught\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        connection.sendall(answer.encode())


class SpeaksPlainly(Bad):
    """speaks plain HTTP."""

    over_tls = False
    expected = ("tls", None)

    def misbehave(self, connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


class Untrusted(Bad):
    """has a certificate of an authority that nobody trusts."""

    expected = ("tls", None)

    def __init__(self, context, trap):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
        super().__init__(context, trap)


class WrongName(Bad):
    """has a certificate for another name."""

    expected = ("tls", None)

    def __init__(self, context, trap):
        super().__init__(context, trap)
        self.context = self.authority.context("elsewhere.example")


class AcceptsWithGigabytes(Bad):
    """accepts with gigabytes."""

    expected = (None, 200)

    def misbehave(self, connection):
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4294967296\r\n\r\n")
        self.pour(connection)


class AcceptsEndlessly(Bad):
    """accepts with an endless chunked body."""

    expected = (None, 200)

    def misbehave(self, connection):
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.pour(connection, b"1000\r\n" + b"x" * 0x1000 + b"\r\n")


FAILING = [
    NeverAnswers,
    NeverShakesHands,
    TricklesHeaders,
    TricklesBody,
    RefusesWithGigabytes,
    EndlessHeaders,
    OneEndlessHeader,
    EndlessHints,
    SpeaksAnotherLanguage,
    Resets,
    Redirects,
    SpeaksPlainly,
    Untrusted,
    WrongName,
]
# A 2xx counts, whatever comes after it: no more than 64 KiB of that is read (contract.md §14).
RUDE = [AcceptsWithGigabytes, AcceptsEndlessly]
