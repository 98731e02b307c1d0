# The script of the project's only scene. `--server` makes it the server.
extends Node

func _ready():
	var peer = NetworkedMultiplayerENet.new()
	if "--server" in OS.get_cmdline_args():
		peer.create_server(7778, 50)
	else:
		peer.create_client("127.0.0.1", 7777) # Tidegate's listener
		get_tree().connect("connected_to_server", self, "greet")
		get_tree().connect("connection_failed", get_tree(), "quit", [1])
	get_tree().network_peer = peer
	print("ready")

func greet():
	rpc_id(1, "hear", "Ada")

remote func hear(name):
	rpc_id(get_tree().get_rpc_sender_id(), "answer", "welcome, " + name)

remote func answer(text):
	print(text)
	get_tree().quit()
