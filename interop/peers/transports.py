"""Riptide's transports by name."""
from pytidenetworking.transports.tcp.tcp_client import TCPClient
from pytidenetworking.transports.tcp.tcp_server import TCPServer
from pytidenetworking.transports.udp.udp_client import UDPClient
from pytidenetworking.transports.udp.udp_server import UDPServer

CLIENTS = {"tcp": TCPClient, "udp": UDPClient}
SERVERS = {"tcp": TCPServer, "udp": UDPServer}
