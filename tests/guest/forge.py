"""Sends OR-ACKs that are not true; runs on a host or a switch of the cluster.

forge.py blind OWN PEER VICTIM MS   knows no key: as PEER with a wrong tag, as PEER malformed, as itself
forge.py replay PEER VICTIM OTHER   sees true ones from PEER to VICTIM: again to VICTIM, and to OTHER
"""

import random
import socket
import struct
import sys
import time

PORT = 9471
LENGTH = 36


def send(raw: socket.socket, source: str, destination: str, payload: bytes) -> None:
    """Send a datagram from any address."""
    udp = struct.pack("!HHHH", PORT, PORT, 8 + len(payload), 0) + payload
    ends = socket.inet_aton(source) + socket.inet_aton(destination)
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, socket.IPPROTO_UDP, 0)
    raw.sendto(head + ends + udp, (destination, 0))


def blind(raw: socket.socket, own: str, peer: str, victim: str, ms: str) -> None:
    """Three kinds of forged OR-ACKs, one of each in 20 µs."""
    ends = socket.inet_aton(victim) + socket.inet_aton(peer)
    draw = random.Random(1)
    for _ in range(int(ms) * 50):
        formed = struct.pack(
            "!BBHIHHQQ", 0x14, 6, draw.randrange(65536), 1, 0, 80, 1 << 62, draw.getrandbits(64)
        )
        send(raw, peer, victim, formed + ends)
        send(raw, own, victim, formed + ends)
        send(raw, peer, victim, draw.randbytes(draw.choice([0, 1, LENGTH - 1, LENGTH + 1, 60, 400])))
        time.sleep(20e-6)


def replay(raw: socket.socket, peer: str, victim: str, other: str) -> None:
    """Every OR-ACK that passes, once more to its host, and to one that sent nothing of the kind."""
    seen = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
    ends = socket.inet_aton(peer) + socket.inet_aton(victim)
    done = set()
    while True:
        packet = seen.recv(2048)
        payload = packet[28:]
        true = packet[9] == socket.IPPROTO_UDP and packet[12:20] == ends and len(payload) == LENGTH
        # It is seen coming in and going out, and so are our own.
        if true and payload not in done:
            done.add(payload)
            send(raw, peer, victim, payload)
            send(raw, peer, other, payload)


def main() -> None:
    """As the command line says."""
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    (blind if sys.argv[1] == "blind" else replay)(raw, *sys.argv[2:])


main()
