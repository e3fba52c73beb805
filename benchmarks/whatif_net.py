"""Peers on this machine with links of a given bandwidth: a network namespace per peer, joined by a bridge.

Every interface is limited in both directions by a token bucket: its own end limits what leaves the peer, the end at the bridge what comes to it. Needs root, `ip` and `tc`; nothing outside of the
namespaces is changed, and everything is removed in the end.
"""

import os
import subprocess
import uuid


def sh(*words):
    subprocess.run(words, check=True)


class Net:
    """Namespaces `wi0` to `wiN` with the addresses 10.77.0.1 to 10.77.0.N+1."""

    def __init__(self, peers, mbit, congestion="reno"):
        self.peers, self.mbit, self.congestion = peers, mbit, congestion

    def __enter__(self):
        self.close()
        sh("ip", "link", "add", "wibr", "type", "bridge")
        sh("ip", "link", "set", "wibr", "up")
        for peer in range(self.peers):
            name, inside, outside = f"wi{peer}", f"wii{peer}", f"wio{peer}"
            sh("ip", "netns", "add", name)
            sh("ip", "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", name)
            sh("ip", "link", "set", outside, "master", "wibr", "up")
            within = ["ip", "netns", "exec", name]
            sh(*within, "ip", "link", "set", "lo", "up")
            sh(*within, "ip", "address", "add", f"10.77.0.{peer + 1}/24", "dev", inside)
            sh(*within, "ip", "link", "set", inside, "up")
            # What most machines have; others (bbr) hold queues so short that many small flows do not fill a link.
            sh(*within, "sysctl", "-q", "-w", f"net.ipv4.tcp_congestion_control={self.congestion}")
            # A bucket of a millisecond, so that a link is never much faster than it says; a queue that is long enough to lose nothing.
            burst = str(max(self.mbit * 125, 16_000))
            bucket = ["root", "tbf", "rate", f"{self.mbit}mbit", "burst", burst, "limit", "16mb"]
            sh(*within, "tc", "qdisc", "add", "dev", inside, *bucket)
            sh("tc", "qdisc", "add", "dev", outside, *bucket)
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        for peer in range(16):
            subprocess.run(["ip", "netns", "delete", f"wi{peer}"], check=False, **quiet)
            subprocess.run(["ip", "link", "delete", f"wio{peer}"], check=False, **quiet)
        subprocess.run(["ip", "link", "delete", "wibr"], check=False, **quiet)

    def run(self, command, seconds=170):
        """Runs a program on every peer; an error if one fails."""
        job = uuid.uuid4().hex
        running = []
        for peer in range(self.peers):
            variables = os.environ | {
                "HEMIOLA_RANK": str(peer),
                "HEMIOLA_SIZE": str(self.peers),
                "HEMIOLA_RENDEZVOUS": "10.77.0.1:29400",
                "HEMIOLA_SECRET": job,
                "HEMIOLA_BIND": f"10.77.0.{peer + 1}",
                "HEMIOLA_WORKERS": "1",
            }
            words = ["ip", "netns", "exec", f"wi{peer}", *command]
            running.append(subprocess.Popen(words, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        said = [peer.communicate(timeout=seconds)[0].decode() for peer in running]
        for number, (peer, text) in enumerate(zip(running, said)):
            if peer.returncode:
                raise SystemExit(f"peer {number} failed with {peer.returncode}: {text}")
        return said
