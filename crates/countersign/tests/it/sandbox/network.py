"""Tries to reach others from a run that is held to hosts. One line of JSON for each try, from inside."""
import errno
import json
import os
import socket
import sys
import urllib.error
import urllib.request

LISTED, OTHER, UDP = (int(word) for word in sys.argv[1:4])
PROXY = int(os.environ["HTTPS_PROXY"].rsplit(":", 1)[1])


def tell(name, reached, detail=""):
    print(json.dumps({"try": name, "reached": bool(reached), "detail": str(detail)[:200]}), flush=True)


def trying(name):
    def run(body):
        try:
            detail = body()
            tell(name, detail, detail)
        except BaseException as error:
            tell(name, False, f"{type(error).__name__}: {error}")
    return run


def talk(stream, text):
    stream.settimeout(10)
    stream.sendall(text.encode())
    said = b""
    while chunk := stream.recv(4096):
        said += chunk
    return said.decode()


def by_proxy(text):
    said = talk(socket.create_connection(("127.0.0.1", PROXY), 10), text)
    return said if "hello from" in said else ""


def direct(family, kind, protocol, address):
    with socket.socket(family, kind, protocol) as stream:
        stream.settimeout(3)
        stream.connect(address)
        return talk(stream, "GET / HTTP/1.1\r\n\r\n")


@trying("listed, by a tunnel")
def _():
    return by_proxy(f"CONNECT 127.0.0.1:{LISTED} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")


@trying("listed, in plain HTTP")
def _():
    return by_proxy(f"GET http://127.0.0.1:{LISTED}/ HTTP/1.1\r\n\r\n")


@trying("listed, by its own port")
def _():
    return "hello from" in direct(socket.AF_INET, socket.SOCK_STREAM, 0, ("127.0.0.1", LISTED))


for name, host in {"another port": f"127.0.0.1:{OTHER}", "another name for it": f"localhost:{OTHER}",
                   "an address": "192.0.2.1:443", "another host": "other.invalid:443",
                   "another port of a named host": "named.invalid:22"}.items():
    @trying(f"by the proxy: {name}")
    def _(host=host):
        return by_proxy(f"CONNECT {host} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")


for name, family, kind, protocol, address in [
    ("another port", socket.AF_INET, socket.SOCK_STREAM, 0, ("127.0.0.1", OTHER)),
    ("another port, by version 6", socket.AF_INET6, socket.SOCK_STREAM, 0, ("::ffff:127.0.0.1", OTHER)),
    ("another port, by multipath", socket.AF_INET, socket.SOCK_STREAM, 262, ("127.0.0.1", OTHER)),
    ("an address", socket.AF_INET, socket.SOCK_STREAM, 0, ("192.0.2.1", 443)),
    ("the metadata of a cloud", socket.AF_INET, socket.SOCK_STREAM, 0, ("169.254.169.254", 80)),
]:
    @trying(f"directly: {name}")
    def _(family=family, kind=kind, protocol=protocol, address=address):
        return direct(family, kind, protocol, address)


@trying("directly: first bytes without a connection")
def _():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stream:
        stream.settimeout(3)
        stream.sendto(b"GET / HTTP/1.1\r\n\r\n", 0x20000000, ("127.0.0.1", OTHER))
        return stream.recv(100)


@trying("a name server")
def _():
    return socket.getaddrinfo("example.com", 443)


@trying("a route to anywhere")
def _():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        return probe.connect_ex(("192.0.2.1", 9)) not in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.EPERM)


@trying("by the variables: another host")
def _():
    try:
        return urllib.request.urlopen("http://by-variable.invalid/", timeout=10).read()
    except urllib.error.HTTPError as error:
        tell("the refusal says why", error.code == 403 and b"[policy.network]" in error.read())
        return False


# Whether a datagram came is seen outside: here it always looks sent.
try:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        for _ in range(3):
            datagrams.sendto(b"datagram", ("127.0.0.1", UDP))
except OSError:
    pass
print("the end", flush=True)
