# An ENet peer on Godot 3's NetworkedMultiplayerENet. A server echoes every message.
# Usage: godot3-server -s enet_peer.gd PORT client|server|clientcompress|servercompress ORDERS
# ORDERS is a TCP port that gives orders, one a line: Godot 3 cannot read from stdin.
# Godot gives the Connect a random ID as data, and no data to a Disconnect. Messages have a head of two IDs.
extends SceneTree

const CHANNELS = 4
const MODES = ["unsequenced", "unreliable", "reliable"]  # by Godot's TransferMode

var orders = StreamPeerTCP.new()
var begun = ""  # the next order's line
var is_server = false
var player = 0  # who came last
var peer = NetworkedMultiplayerENet.new()


func _init():
	var args = OS.get_cmdline_args()
	var last = args.size() - 1
	var port = int(args[last - 2])
	is_server = args[last - 1].begins_with("server")
	peer.compression_mode = int(args[last - 1].ends_with("compress"))  # 1: the range coder
	orders.connect_to_host("127.0.0.1", int(args[last]))
	Engine.target_fps = 500
	peer.channel_count = CHANNELS
	peer.connect("peer_connected", self, "meet")
	peer.connect("peer_disconnected", self, "part")
	peer.connect("server_disconnected", self, "part", [1])
	if is_server:
		peer.set_bind_ip("127.0.0.1")
		peer.create_server(port, 200)
		print(to_json({"event": "listening"}))
	else:
		peer.create_client("127.0.0.1", port)


func meet(id):
	player = id
	var own = peer.get_unique_id() if not is_server else id
	print(to_json({"event": "joined" if is_server else "connected", "payload": "%08x" % own}))


func part(id):
	if is_server or id == 1:
		print(to_json({"event": "left" if is_server else "disconnected", "payload": "00000000"}))


func _idle(_delta):
	if orders.get_status() != StreamPeerTCP.STATUS_CONNECTED:
		return true  # the end of the process
	if peer.get_connection_status() != NetworkedMultiplayerPeer.CONNECTION_DISCONNECTED:
		listen()
	if orders.get_available_bytes() > 0:
		begun += orders.get_partial_data(orders.get_available_bytes())[1].get_string_from_ascii()
		var lines = begun.split("\n")
		begun = lines[lines.size() - 1]
		for i in lines.size() - 1:
			obey(parse_json(lines[i]))
	return false


func listen():
	peer.poll()
	while peer.get_available_packet_count() > 0:
		var from = peer.get_packet_peer()
		var channel = peer.get_packet_channel()
		var payload = peer.get_packet()
		print(to_json({"event": "received", "channel": channel, "payload": payload.hex_encode()}))
		if is_server:
			# The library tells no game how a message came. Its first byte says it here.
			send(from, channel, payload, MODES[payload[0]] if payload[0] < 3 else "reliable")


func send(to, channel, payload, mode):
	peer.set_target_peer(to)
	peer.transfer_channel = channel
	peer.transfer_mode = MODES.find(mode)
	peer.put_packet(payload)


func obey(order):
	if order["do"] == "send":
		send(1, int(order["channel"]), bytes_of(order["payload"]), order["mode"])
	elif is_server:
		peer.disconnect_peer(player)
	else:
		peer.close_connection(100)


func bytes_of(hex):
	var b = PoolByteArray()
	b.resize(hex.length() / 2)
	for i in b.size():
		b[i] = ("0x" + hex.substr(2 * i, 2)).hex_to_int()
	return b
