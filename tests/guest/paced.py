"""Takes what connections bring (`sink`), or sends 4 MB at 100 Mb/s (`send ADDRESS`).

What sends prints its rate in bit/s, and how many packets TCP retransmitted. (`iperf3 -b` polls its socket in
between, which takes a minute where polling lets no time pass.)
"""

import socket
import struct
import sys
import time

PORT = 5201
#: Offset of `tcpi_total_retrans` in `struct tcp_info` (include/uapi/linux/tcp.h).
TOTAL_RETRANS = 100


def sink() -> None:
    server = socket.create_server(("", PORT))
    while True:
        connection, _ = server.accept()
        while connection.recv(1 << 20):
            pass
        connection.close()


def send(address: str) -> None:
    to = socket.create_connection((address, PORT))
    start = time.monotonic()
    for i in range(320):
        time.sleep(max(0, start + i / 1000 - time.monotonic()))
        to.sendall(bytes(12500))
    took = time.monotonic() - start
    info = to.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TOTAL_RETRANS + 4)
    print(4e6 * 8 / took, struct.unpack_from("I", info, TOTAL_RETRANS)[0])


if __name__ == "__main__":
    sink() if sys.argv[1] == "sink" else send(sys.argv[2])
