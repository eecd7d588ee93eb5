"""A relay in front of a server. It acts when a given number of bytes has passed through it.

Tests use it to kill programs and servers exactly at a chosen byte, in the middle of an upload.
Bytes after that one never reach the server.
"""
import socket
import threading

HEAD_END = b"\r\n\r\n"


class Requests:
    """Follows the HTTP requests of one connection."""

    def __init__(self):
        self.head = b""
        self.body_left = 0
        self.method = b""

    def passed(self, data):
        while data:
            if self.body_left:
                now = min(self.body_left, len(data))
                self.body_left -= now
                data = data[now:]
                continue
            self.head += data
            end = self.head.find(HEAD_END)
            if end < 0:
                return
            head, data = self.head[:end], self.head[end + len(HEAD_END):]
            self.head = b""
            self.method = head.split(b" ", 1)[0]
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    self.body_left = int(line.split(b":")[1])

    def is_inside_an_object(self):
        return self.method == b"PUT" and self.body_left > 0


class Relay:
    """Relays from a port of loopback, `port`, to another one."""

    def __init__(self, to_port):
        self.to_port = to_port
        self.lock = threading.Lock()
        self.sent = 0  # bytes from all clients so far
        self.at = []  # (value of `sent`, action) pairs, the next first
        self.servers = set()
        self.is_away = False
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, triggers):
        """Replaces all triggers. Each is (bytes from now on, action). The action gets an argument:
        whether the byte is in the middle of an object. If the action returns True, nothing more
        goes to the server on the open connections."""
        with self.lock:
            self.at = sorted(((self.sent + count, act) for count, act in triggers),
                             key=lambda trigger: trigger[0])

    def go_away(self, seconds):
        """Closes all connections, and accepts none for `seconds`."""
        self.is_away = True
        with self.lock:
            for server in self.servers:
                self._shut(server)
        threading.Timer(seconds, self._come_back).start()

    def _come_back(self):
        self.is_away = False

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            if self.is_away:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.to_port))
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.servers.add(server)
            back = threading.Thread(target=self._answers, args=(server, client), daemon=True)
            back.start()
            threading.Thread(target=self._requests, args=(client, server, back),
                             daemon=True).start()

    @staticmethod
    def _shut(end):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # The socket is shut down already.

    def _answers(self, server, client):
        try:
            while data := server.recv(1 << 16):
                client.sendall(data)
        except OSError:
            pass
        self._shut(client)

    def _requests(self, client, server, back):
        requests = Requests()
        try:
            while data := client.recv(1 << 16):
                while data:
                    data = self._pass(data, server, requests, back)
        except OSError:
            pass
        with self.lock:
            self.servers.discard(server)
        self._shut(server)
        self._shut(client)
        back.join()
        server.close()
        client.close()

    def _pass(self, data, server, requests, back):
        """Passes `data` on up to the next trigger, and returns the rest."""
        with self.lock:
            until = self.at[0][0] - self.sent if self.at else len(data)
            now, rest = data[:until], data[until:]
            server.sendall(now)
            requests.passed(now)
            self.sent += len(now)
            if not self.at or self.sent < self.at[0][0]:
                return rest
            _, act = self.at.pop(0)
            if act(requests.is_inside_an_object()):
                for other in self.servers:
                    self._shut(other)
                return b""
        return rest
