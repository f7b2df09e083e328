"""An HTTPS receiver that keeps what it is sent, and the authority that made its certificate."""

import collections
import http.server
import os
import socketserver
import ssl
import threading
import time

import trustme

Received = collections.namedtuple("Received", "path headers body at status")


class Authority:
    """Certificates for receivers on this machine; `file` is what --webhook-extra-ca is given."""

    def __init__(self, folder):
        self.ca = trustme.CA()
        self.file = os.path.join(folder, "ca.pem")
        self.ca.cert_pem.write_to_path(self.file)

    def context(self, *names):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*(names or ("127.0.0.1", "localhost"))).configure_cert(context)
        return context


class Inbox:
    """Keeps every request in the order of arrival. `answer(received)` gives the status, 204 unless told; `pause(body)` the
    seconds until then."""

    def __init__(self, context, answer=lambda received: 204, pause=lambda body: 0):
        self.lock = threading.Lock()
        self.received = []
        inbox = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def setup(self):
                # Here, in the connection's own thread, so that a slow handshake holds up nobody.
                self.request = context.wrap_socket(self.request, server_side=True)
                super().setup()

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with inbox.lock:
                    status = answer(Received(self.path, headers, body, time.monotonic(), None))
                    inbox.received.append(Received(self.path, headers, body, time.monotonic(), status))
                time.sleep(pause(body))
                self.wfile.write(f"HTTP/1.1 {status} So\r\nContent-Length: 0\r\n\r\n".encode())

            def log_message(self, *_):
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *_):
                """A service that is killed breaks off its connections: nothing to tell."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"https://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def at(self, path):
        """What came to a path."""
        with self.lock:
            return [received for received in self.received if received.path == path]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
