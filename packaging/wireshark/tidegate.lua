-- Wireshark dissectors for the protocols of game servers: Riptide 2.0 and 2.1 or later, RUDP (renatommartins), RakNet 4
-- with its reliability layer, NetherNet, ENet 1.3 and R-Type. docs/protocols has the facts that they are written by.
--
-- Use: wireshark -X lua_script:tidegate.lua game.pcap, or put this file into the personal Lua plugins
-- (Help, About, Folders). Then choose "Decode As" for the game's UDP port, or for example:
--   tshark -X lua_script:tidegate.lua -d udp.port==7777,riptide22 -r game.pcap

-- fault marks bytes that break a protocol's rules. The filter "tidegate.fault" finds them.
local common = Proto("tidegate", "Tidegate's dissectors")
local fault = ProtoExpert.new("tidegate.fault", "Bytes that break the protocol", expert.group.PROTOCOL,
	expert.severity.WARN)
common.experts = { fault }

local function broken(tree, text) tree:add_proto_expert_info(fault, text) end

local function name_of(names, id) return names[id] or ("type " .. id) end

-- fields makes the fields of a protocol: a list of {name, title, kind, base, names}.
local function fields(proto, abbrev, list)
	local made = {}
	for _, f in ipairs(list) do
		made[f[1]] = ProtoField[f[3]](abbrev .. "." .. f[1], f[2], f[4], f[5])
	end
	proto.fields = made
	return made
end

---------------------------------------------------------------------------------------------------------------------
-- Riptide. From 2.1 on a message begins with a type of 4 bits, and all later bytes are shifted by as much.

local riptide_types = {
	[22] = { [0] = "Unreliable", "Ack", "Connect", "Reject", "Heartbeat", "Disconnect", "Notify", "Reliable", "Welcome",
		"ClientConnected", "ClientDisconnected" },
	[20] = { [0] = "Unreliable", "Ack", "AckExtra", "Connect", "Reject", "Heartbeat", "Disconnect", "Reliable", "Welcome",
		"ClientConnected", "ClientDisconnected" },
}

local function riptide(version, title)
	local abbrev = "riptide" .. version
	local types = riptide_types[version]
	local proto = Proto(abbrev, title)
	local f = fields(proto, abbrev, {
		{ "type", "Type", "uint8", base.DEC, types },
		{ "seq", "Sequence number", "uint16", base.DEC },
		{ "id", "Message ID", "uint16", base.DEC },
		{ "last", "Newest number received", "uint16", base.DEC },
		{ "bits", "Numbers received before it", "uint16", base.HEX },
		{ "acked", "Number that caused the acknowledgement", "uint16", base.DEC },
		{ "client", "Client ID", "uint16", base.DEC },
		{ "ping", "Ping", "uint8", base.DEC },
		{ "rtt", "Last round trip (ms)", "int16", base.DEC },
		{ "reason", "Reason", "uint8", base.DEC },
		{ "payload", "Payload", "bytes" },
	})

	-- body returns the bytes after the type, and the type.
	local function body(tvb)
		if version == 20 then
			return tvb(0, 1):uint(), tvb:len() > 1 and tvb:bytes(1) or ByteArray.new()
		end
		local bytes = ByteArray.new()
		bytes:set_size(tvb:len() - 1)
		for i = 0, tvb:len() - 2 do
			bytes:set_index(i, tvb(i, 1):bitfield(0, 4) + tvb(i + 1, 1):bitfield(4, 4) * 16)
		end
		return tvb(0, 1):bitfield(4, 4), bytes
	end

	-- message adds the message ID at a place, and the payload behind it.
	local function message(tree, b, at)
		local id, size = 0, 2
		if version == 20 then
			if b:len() < at + 2 then return broken(tree, "no message ID") end
			id = b(at, 2):le_uint()
		else -- groups of 7 bits, low group first
			size = 0
			repeat
				if b:len() <= at + size or size > 9 then return broken(tree, "no message ID") end
				local group = b(at + size, 1):uint()
				if size < 3 then id = id + (group % 128) * 128 ^ size end
				size = size + 1
			until group < 128
			id = id % 65536
		end
		tree:add(f.id, b(at, size), id)
		if b:len() > at + size then tree:add(f.payload, b(at + size)) end
		return id
	end

	function proto.dissector(tvb, pinfo, root)
		if tvb:len() == 0 then return 0 end
		pinfo.cols.protocol = version == 20 and "Riptide 2.0" or "Riptide"
		local tree = root:add(proto, tvb())
		local kind, bytes = body(tvb)
		local name = types[kind]
		tree:add(f.type, tvb(0, 1), kind)
		local info = name or ("type " .. kind)
		local b = bytes:len() > 0 and bytes:tvb("Riptide message") or nil
		local n = bytes:len()
		local function need(size)
			if n >= size then return true end
			broken(tree, "the message is cut short")
		end
		if name == nil then
			broken(tree, "this type does not exist")
		elseif name == "Unreliable" then
			if need(1) then info = info .. " ID " .. (message(tree, b, 0) or "?") end
		elseif name == "Reliable" then
			if need(3) then
				tree:add_le(f.seq, b(0, 2))
				info = info .. " " .. b(0, 2):le_uint() .. " ID " .. (message(tree, b, 2) or "?")
			end
		elseif name == "Ack" or name == "AckExtra" then
			if need(4) then
				tree:add_le(f.last, b(0, 2))
				tree:add_le(f.bits, b(2, 2))
				local caused = b(0, 2):le_uint()
				if version == 20 and name == "AckExtra" and need(6) then
					tree:add_le(f.acked, b(4, 2))
					caused = b(4, 2):le_uint()
				elseif version == 22 and n >= 7 and b(4, 1):uint() % 2 == 1 then -- a bit, and then 16 bits
					local bits = b(4, 3):le_uint()
					caused = math.floor(bits / 2) % 65536
					tree:add(f.acked, b(4, 3), caused)
				end
				info = info .. " of " .. caused
			end
		elseif name == "Welcome" or name == "ClientConnected" or name == "ClientDisconnected" then
			if need(4) then
				tree:add_le(f.seq, b(0, 2))
				tree:add_le(f.client, b(2, 2))
				info = info .. " client " .. b(2, 2):le_uint()
			end
		elseif name == "Heartbeat" then
			if need(1) then
				tree:add(f.ping, b(0, 1))
				if n >= 3 then tree:add_le(f.rtt, b(1, 2)) end
			end
		elseif name == "Notify" then
			if need(5) then
				tree:add_le(f.last, b(0, 2))
				tree:add(f.bits, b(2, 1))
				tree:add_le(f.seq, b(3, 2))
				if n > 5 then tree:add(f.payload, b(5)) end
				info = info .. " " .. b(3, 2):le_uint()
			end
		elseif name == "Reject" or (name == "Disconnect" and n > 0) then
			if need(1) then
				tree:add(f.reason, b(0, 1))
				if n > 1 then tree:add(f.payload, b(1)) end
				info = info .. " reason " .. b(0, 1):uint()
			end
		elseif n > 0 then
			tree:add(f.payload, b())
		end
		pinfo.cols.info = info
		return tvb:len()
	end
	DissectorTable.get("udp.port"):add_for_decode_as(proto)
end

riptide(22, "Riptide 2.1 or later")
riptide(20, "Riptide 2.0")

---------------------------------------------------------------------------------------------------------------------
-- RUDP, the C# library by renatommartins.

do
	local types = { [0] = "ConnectionRequest", "ConnectionAccept", "ConnectionRefuse", "DisconnectionNotify", "KeepAlive",
		"Data" }
	local proto = Proto("rudpgame", "RUDP (renatommartins)")
	local f = fields(proto, "rudpgame", {
		{ "app", "Application ID", "uint16", base.HEX },
		{ "seq", "Sequence number", "uint16", base.DEC },
		{ "ack", "Newest number received", "uint16", base.DEC },
		{ "bits", "Numbers received before it", "uint32", base.HEX },
		{ "type", "Type", "uint16", base.DEC, types },
		{ "rate", "Packets a second", "uint8", base.DEC },
		{ "version", "Version of the protocol", "uint8", base.DEC },
		{ "payload", "Messages", "bytes" },
		{ "checksum", "CRC-32", "uint32", base.HEX },
	})
	local crc_of = {}
	for i = 0, 255 do
		local c = i
		for _ = 1, 8 do
			c = c % 2 == 1 and bit.bxor(bit.rshift(c, 1), 0xedb88320) or bit.rshift(c, 1)
		end
		crc_of[i] = c
	end
	local function crc(tvb)
		local c = bit.bnot(0)
		for i = 0, tvb:len() - 1 do
			c = bit.bxor(bit.rshift(c, 8), crc_of[bit.band(bit.bxor(c, tvb(i, 1):uint()), 255)])
		end
		return bit.bnot(c) % 4294967296
	end

	function proto.dissector(tvb, pinfo, root)
		pinfo.cols.protocol = "RUDP"
		local tree = root:add(proto, tvb())
		local n = tvb:len()
		if n < 16 then
			broken(tree, "a packet has at least 16 bytes")
			return n
		end
		tree:add(f.app, tvb(0, 2))
		tree:add(f.seq, tvb(2, 2))
		tree:add(f.ack, tvb(4, 2))
		tree:add(f.bits, tvb(6, 4))
		tree:add(f.type, tvb(10, 2))
		local kind = tvb(10, 2):uint()
		if types[kind] == nil then broken(tree, "this type does not exist") end
		if kind == 1 and n >= 18 then
			tree:add(f.rate, tvb(12, 1))
			tree:add(f.version, tvb(13, 1))
		elseif n > 16 then
			tree:add(f.payload, tvb(12, n - 16))
		end
		local sum = tree:add(f.checksum, tvb(n - 4, 4))
		if crc(tvb(0, n - 4)) ~= tvb(n - 4, 4):uint() then broken(sum, "the checksum is wrong") end
		pinfo.cols.info = string.format("%s %d, ack %d", name_of(types, kind), tvb(2, 2):uint(), tvb(4, 2):uint())
		return n
	end
	DissectorTable.get("udp.port"):add_for_decode_as(proto)
end

---------------------------------------------------------------------------------------------------------------------
-- RakNet 4: offline messages, acknowledgements, and datagrams of frames with parts of large messages.

do
	local offline = { [0x01] = "Unconnected Ping", [0x02] = "Unconnected Ping (open connections)",
		[0x05] = "Open Connection Request 1", [0x06] = "Open Connection Reply 1", [0x07] = "Open Connection Request 2",
		[0x08] = "Open Connection Reply 2", [0x0b] = "Our System Requires Security", [0x0c] = "Public Key Mismatch",
		[0x0d] = "Out Of Band Internal", [0x11] = "Connection Attempt Failed", [0x12] = "Already Connected",
		[0x14] = "No Free Incoming Connections", [0x17] = "Connection Banned", [0x18] = "Invalid Password",
		[0x19] = "Incompatible Protocol Version", [0x1a] = "IP Recently Connected", [0x1c] = "Unconnected Pong",
		[0x1d] = "Advertise System" }
	local inside = { [0x00] = "Connected Ping", [0x03] = "Connected Pong", [0x04] = "Detect Lost Connections",
		[0x09] = "Connection Request", [0x10] = "Connection Request Accepted", [0x13] = "New Incoming Connection",
		[0x15] = "Disconnection Notification", [0x1b] = "Timestamp" }
	local promises = { [0] = "unreliable", "unreliable sequenced", "reliable", "reliable ordered", "reliable sequenced",
		"unreliable with receipt", "reliable with receipt", "reliable ordered with receipt" }
	local proto = Proto("raknet4", "RakNet 4")
	local f = fields(proto, "raknet4", {
		{ "offline", "Offline message", "uint8", base.HEX, offline },
		{ "flags", "Flags", "uint8", base.HEX },
		{ "seq", "Datagram number", "uint24", base.DEC },
		{ "frame", "Frame", "bytes" },
		{ "reliability", "Reliability", "uint8", base.DEC, promises },
		{ "bits", "Length in bits", "uint16", base.DEC },
		{ "number", "Message number", "uint24", base.DEC },
		{ "sequence", "Sequencing index", "uint24", base.DEC },
		{ "order", "Ordering index", "uint24", base.DEC },
		{ "channel", "Channel", "uint8", base.DEC },
		{ "parts", "Parts", "uint32", base.DEC },
		{ "split", "Split ID", "uint16", base.DEC },
		{ "part", "Part", "uint32", base.DEC },
		{ "id", "Message ID", "uint8", base.HEX, inside },
		{ "payload", "Payload", "bytes" },
		{ "first", "First number", "uint24", base.DEC },
		{ "last", "Last number", "uint24", base.DEC },
		{ "speed", "Arrival speed", "float" },
	})

	-- acknowledgement adds the ranges of an ACK or NAK.
	local function acknowledgement(tvb, tree, flags)
		local at = 1
		if bit.band(flags, 0x40) ~= 0 and bit.band(flags, 0x20) ~= 0 and tvb:len() >= 5 then
			tree:add(f.speed, tvb(1, 4))
			at = 5
		end
		if tvb:len() < at + 2 then return broken(tree, "no ranges") end
		local count = tvb(at, 2):uint()
		at = at + 2
		for _ = 1, count do
			if tvb:len() < at + 4 then return broken(tree, "the ranges are cut short") end
			local single = tvb(at, 1):uint() ~= 0
			tree:add_le(f.first, tvb(at + 1, 3))
			if not single then
				if tvb:len() < at + 7 then return broken(tree, "the ranges are cut short") end
				tree:add_le(f.last, tvb(at + 4, 3))
			end
			at = at + (single and 4 or 7)
		end
		return count
	end

	local has_number = { [2] = true, [3] = true, [4] = true, [6] = true, [7] = true }
	local has_sequence = { [1] = true, [4] = true }
	local has_order = { [1] = true, [3] = true, [4] = true, [7] = true }

	-- frame adds the frame at a place. It returns the place behind it and a description, or nil.
	local function frame(tvb, tree, at)
		if tvb:len() < at + 3 then return end
		local flags = tvb(at, 1):uint()
		local reliability, split = bit.rshift(flags, 5), bit.band(flags, 0x10) ~= 0
		local bits = tvb(at + 1, 2):uint()
		local size = 3 + (has_number[reliability] and 3 or 0) + (has_sequence[reliability] and 3 or 0) +
			(has_order[reliability] and 4 or 0) + (split and 10 or 0)
		local bytes = math.ceil(bits / 8)
		if bits == 0 or tvb:len() < at + size + bytes then return end
		local t = tree:add(f.frame, tvb(at, size + bytes))
		t:add(f.reliability, tvb(at, 1), reliability)
		t:add(f.bits, tvb(at + 1, 2))
		local p = at + 3
		if has_number[reliability] then
			t:add_le(f.number, tvb(p, 3))
			p = p + 3
		end
		if has_sequence[reliability] then
			t:add_le(f.sequence, tvb(p, 3))
			p = p + 3
		end
		if has_order[reliability] then
			t:add_le(f.order, tvb(p, 3))
			t:add(f.channel, tvb(p + 3, 1))
			p = p + 4
		end
		local text = promises[reliability]
		if split then
			t:add(f.parts, tvb(p, 4))
			t:add(f.split, tvb(p + 4, 2))
			t:add(f.part, tvb(p + 6, 4))
			text = string.format("part %d of %d of split %d", tvb(p + 6, 4):uint() + 1, tvb(p, 4):uint(), tvb(p + 4, 2):uint())
			p = p + 10
		end
		if not split or tvb(p - 4, 4):uint() == 0 then
			t:add(f.id, tvb(p, 1))
			local id = tvb(p, 1):uint()
			text = (inside[id] or string.format("message 0x%02x", id)) .. ", " .. text
		end
		t:add(f.payload, tvb(p, bytes))
		t:set_text("Frame: " .. text .. ", " .. bytes .. " bytes")
		return p + bytes, text
	end

	function proto.dissector(tvb, pinfo, root)
		local n = tvb:len()
		if n == 0 then return 0 end
		pinfo.cols.protocol = "RakNet"
		local tree = root:add(proto, tvb())
		local flags = tvb(0, 1):uint()
		if flags < 0x80 then
			tree:add(f.offline, tvb(0, 1))
			if n > 1 then tree:add(f.payload, tvb(1)) end
			pinfo.cols.info = name_of(offline, flags)
			return n
		end
		tree:add(f.flags, tvb(0, 1))
		if bit.band(flags, 0x40) ~= 0 or bit.band(flags, 0x20) ~= 0 then
			local what = bit.band(flags, 0x40) ~= 0 and "ACK" or "NAK"
			pinfo.cols.info = string.format("%s, %s ranges", what, acknowledgement(tvb, tree, flags) or "?")
			return n
		end
		if n < 4 then
			broken(tree, "no datagram number")
			return n
		end
		tree:add_le(f.seq, tvb(1, 3))
		local at, texts = 4, {}
		while at < n do
			local past, text = frame(tvb, tree, at)
			if past == nil then
				broken(tree, "these bytes are no frame; the connection may be encrypted")
				break
			end
			at = past
			texts[#texts + 1] = text
		end
		pinfo.cols.info = string.format("Datagram %d: %s", tvb(1, 3):le_uint(), table.concat(texts, "; "))
		return n
	end
	DissectorTable.get("udp.port"):add_for_decode_as(proto)
end

---------------------------------------------------------------------------------------------------------------------
-- NetherNet, the WebRTC of Minecraft Bedrock: ICE's checks, and the records of DTLS, whose content is encrypted.

do
	local classes = { [0x0001] = "Check", [0x0011] = "Keepalive", [0x0101] = "Answer to a check",
		[0x0111] = "Refusal of a check" }
	local attributes = { [0x0006] = "Username", [0x0008] = "Message integrity", [0x0020] = "Mapped address",
		[0x0024] = "Priority", [0x0025] = "Use candidate", [0x8022] = "Software", [0x8028] = "Fingerprint",
		[0x8029] = "ICE controlled", [0x802a] = "ICE controlling", [0xc057] = "Network information" }
	local records = { [20] = "Change of ciphers", [21] = "Alert", [22] = "Handshake", [23] = "Data",
		[30] = "Message inside, as Tidegate saw it", [31] = "Join over HTTP, as Tidegate saw it" }
	local steps = { [1] = "client hello", [2] = "server hello", [3] = "hello verify request", [4] = "session ticket",
		[11] = "certificate", [12] = "server key exchange", [13] = "certificate request", [14] = "server hello done",
		[15] = "certificate verify", [16] = "client key exchange", [20] = "finished" }
	local proto = Proto("nethernet", "NetherNet")
	local f = fields(proto, "nethernet", {
		{ "class", "Message", "uint16", base.HEX, classes },
		{ "transaction", "Transaction", "bytes" },
		{ "attribute", "Attribute", "uint16", base.HEX, attributes },
		{ "username", "Username", "string" },
		{ "value", "Value", "bytes" },
		{ "record", "Record", "uint8", base.DEC, records },
		{ "epoch", "Epoch", "uint16", base.DEC },
		{ "seq", "Number", "uint64", base.DEC },
		{ "step", "Step of the handshake", "uint8", base.DEC, steps },
		{ "content", "Content", "bytes" },
	})

	local function check(tvb, tree)
		local class, at = tvb(0, 2):uint(), 20
		tree:add(f.class, tvb(0, 2))
		tree:add(f.transaction, tvb(8, 12))
		if classes[class] == nil then broken(tree, "this type is not of ICE's checks") end
		if tvb(2, 2):uint() ~= tvb:len() - 20 then broken(tree, "the length is wrong") end
		local text = classes[class] or "STUN"
		while at < tvb:len() do
			if tvb:len() < at + 4 then return broken(tree, "an attribute is cut short") or text end
			local kind, size = tvb(at, 2):uint(), tvb(at + 2, 2):uint()
			if tvb:len() < at + 4 + size then return broken(tree, "an attribute is cut short") or text end
			tree:add(f.attribute, tvb(at, 2))
			if size > 0 then
				local value = tvb(at + 4, size)
				tree:add(kind == 6 and f.username or f.value, value)
				if kind == 6 then text = text .. " for " .. value:string() end
			end
			if kind == 0x25 then text = text .. ", nominates" end
			at = at + 4 + math.ceil(size / 4) * 4
		end
		return text
	end

	-- record adds the DTLS record at a place. It returns the place behind it and a description, or nil.
	local function record(tvb, tree, at)
		if tvb:len() < at + 13 then return end
		local kind, epoch, size = tvb(at, 1):uint(), tvb(at + 3, 2):uint(), tvb(at + 11, 2):uint()
		if records[kind] == nil or tvb(at + 1, 1):uint() ~= 0xfe or tvb:len() < at + 13 + size then return end
		tree:add(f.record, tvb(at, 1))
		tree:add(f.epoch, tvb(at + 3, 2))
		tree:add(f.seq, tvb(at + 5, 6))
		if size > 0 then tree:add(f.content, tvb(at + 13, size)) end
		local text = records[kind]
		if kind == 31 and size > 0 then text = text .. ": " .. tvb(at + 13, size):string() end
		if epoch > 0 then return at + 13 + size, text .. ", encrypted" end
		if kind == 22 and size > 0 then
			tree:add(f.step, tvb(at + 13, 1))
			text = text .. ": " .. name_of(steps, tvb(at + 13, 1):uint())
		end
		return at + 13 + size, text
	end

	function proto.dissector(tvb, pinfo, root)
		local n = tvb:len()
		if n == 0 then return 0 end
		pinfo.cols.protocol = "NetherNet"
		local tree = root:add(proto, tvb())
		if n >= 20 and tvb(0, 1):uint() < 4 and tvb(4, 4):uint() == 0x2112a442 then
			pinfo.cols.info = check(tvb, tree)
			return n
		end
		local at, texts = 0, {}
		while at < n do
			local past, text = record(tvb, tree, at)
			if past == nil then
				broken(tree, "neither a check nor a record of DTLS 1.2")
				break
			end
			at = past
			texts[#texts + 1] = text
		end
		pinfo.cols.info = table.concat(texts, "; ")
		return n
	end
	DissectorTable.get("udp.port"):add_for_decode_as(proto)
end

---------------------------------------------------------------------------------------------------------------------
-- ENet 1.3, without compression.

do
	local types = { "Acknowledge", "Connect", "Verify Connect", "Disconnect", "Ping", "Send Reliable", "Send Unreliable",
		"Send Fragment", "Send Unsequenced", "Bandwidth Limit", "Throttle Configure", "Send Unreliable Fragment" }
	local sizes = { 8, 48, 44, 8, 4, 6, 8, 24, 8, 12, 16, 24 }
	local length_at = { [6] = 4, [7] = 6, [8] = 6, [9] = 6, [12] = 6 } -- of the data, in commands that have some
	local proto = Proto("enet13", "ENet 1.3")
	local f = fields(proto, "enet13", {
		{ "peer", "Peer ID", "uint16", base.DEC },
		{ "time", "Sent time", "uint16", base.DEC },
		{ "checksum", "CRC-32", "uint32", base.HEX },
		{ "command", "Command", "uint8", base.DEC, types },
		{ "channel", "Channel", "uint8", base.DEC },
		{ "seq", "Reliable number", "uint16", base.DEC },
		{ "start", "First number of the fragments", "uint16", base.DEC },
		{ "fragments", "Fragments", "uint32", base.DEC },
		{ "fragment", "Fragment", "uint32", base.DEC },
		{ "received", "Number acknowledged", "uint16", base.DEC },
		{ "payload", "Data", "bytes" },
	})

	-- lengths returns the places behind each command from a place on, or nil if the commands do not fill the datagram.
	local function lengths(tvb, at)
		local all = {}
		while at < tvb:len() do
			local size = sizes[tvb(at, 1):uint() % 16]
			if size == nil or tvb:len() < at + size then return end
			local length = length_at[tvb(at, 1):uint() % 16]
			if length then size = size + tvb(at + length, 2):uint() end
			if tvb:len() < at + size then return end
			at = at + size
			all[#all + 1] = at
		end
		return all
	end

	function proto.dissector(tvb, pinfo, root)
		pinfo.cols.protocol = "ENet"
		local tree = root:add(proto, tvb())
		local n = tvb:len()
		if n < 4 then
			broken(tree, "the header is cut short")
			return n
		end
		local flags = tvb(0, 1):uint()
		tree:add(f.peer, tvb(0, 2), bit.band(tvb(0, 2):uint(), 0x0fff))
		local at = 2
		if flags >= 0x80 then
			tree:add(f.time, tvb(2, 2))
			at = 4
		end
		if bit.band(flags, 0x40) ~= 0 then
			tree:add(f.payload, tvb(at))
			pinfo.cols.info = "compressed"
			return n
		end
		local ends = lengths(tvb, at)
		if not ends and n >= at + 4 then -- a checksum may stand before the commands
			ends = lengths(tvb, at + 4)
			if ends then
				tree:add(f.checksum, tvb(at, 4))
				at = at + 4
			end
		end
		if not ends then
			broken(tree, "the commands do not fill the datagram")
			return n
		end
		local texts = {}
		for _, past in ipairs(ends) do
			local kind = tvb(at, 1):uint() % 16
			local t = tree:add(tvb(at, past - at), types[kind])
			t:add(f.command, tvb(at, 1), kind)
			t:add(f.channel, tvb(at + 1, 1))
			t:add(f.seq, tvb(at + 2, 2))
			if kind == 1 then t:add(f.received, tvb(at + 4, 2)) end
			if kind == 8 or kind == 12 then
				t:add(f.start, tvb(at + 4, 2))
				t:add(f.fragments, tvb(at + 8, 4))
				t:add(f.fragment, tvb(at + 12, 4))
			end
			if length_at[kind] and past > at + sizes[kind] then
				t:add(f.payload, tvb(at + sizes[kind], past - at - sizes[kind]))
			end
			texts[#texts + 1] = types[kind]
			at = past
		end
		pinfo.cols.info = table.concat(texts, ", ")
		return n
	end
	DissectorTable.get("udp.port"):add_for_decode_as(proto)
end

---------------------------------------------------------------------------------------------------------------------
-- R-Type, the game's dialects. The sender decides about the meaning, so the port of "Decode As" must be the server's.

local rtype_operations = { [0] = "Create", "Delete", "Attach", "Update", "Detach", [10] = "Next frame" }

-- rtype makes the dissector of a dialect: the bytes of an entity, the bytes of a component's index, and whether it is
-- the last game, with its lobby and little-endian IDs.
local function rtype(abbrev, title, entity, index, last)
	local proto = Proto(abbrev, title)
	local f = fields(proto, abbrev, {
		{ "operation", "Operation", "uint8", base.HEX, rtype_operations },
		{ "entity", "Entity", "uint32", base.DEC },
		{ "component", "Component", "uint16", base.DEC },
		{ "name", "Name of the component", "string" },
		{ "count", "Number of components", "uint16", base.DEC },
		{ "longest", "Length of the longest name", "uint16", base.DEC },
		{ "key", "Key", "uint8", base.DEC },
		{ "text", "Text", "string" },
		{ "data", "Data", "bytes" },
	})
	local function id(tree, field, range) -- adds an ID in the dialect's byte order, and returns it
		if last then
			tree:add_le(field, range)
			return range:le_uint()
		end
		tree:add(field, range)
		return range:uint()
	end
	local function is_name(tvb, at)
		return tvb:len() > at and tvb(at):string():match("^[%w%-_%.]+$") ~= nil
	end

	local function instruction(tvb, tree)
		local n, operation = tvb:len(), tvb(0, 1):uint()
		local name = rtype_operations[operation]
		tree:add(f.operation, tvb(0, 1))
		if name == "Next frame" and n == 1 then return name end
		local whole = 1 + entity + (operation >= 2 and 2 or 0)
		if name == nil or operation > 4 or n < whole or (n > whole and operation ~= 3) then
			broken(tree, "this is no instruction")
			return "unknown"
		end
		local text = name .. " " .. id(tree, f.entity, tvb(1, entity))
		if operation >= 2 then text = text .. " component " .. id(tree, f.component, tvb(1 + entity, 2)) end
		if n > whole then tree:add(f.data, tvb(whole)) end
		return text
	end

	-- component adds the name of a component, whose index begins at a place.
	local function component(tvb, tree, at, size)
		tree:add_le(f.component, tvb(at, size))
		tree:add(f.name, tvb(at + size))
		return "Component " .. tvb(at, size):le_uint() .. " is " .. tvb(at + size):string()
	end

	local function from_server(tvb, tree)
		local n, first = tvb:len(), tvb(0, 1):uint()
		if n > 8 and tvb(0, 8):string() == "You have" then
			tree:add(f.text, tvb())
			return "Goodbye"
		elseif last and first == 5 and is_name(tvb, 3) then
			return component(tvb, tree, 1, 2)
		elseif last and first == 6 and n == 3 then
			tree:add(f.count, tvb(1, 2))
			return "Count " .. tvb(1, 2):uint()
		elseif not last and n == 2 and first == 0 then
			tree:add(f.count, tvb())
			return "Count " .. tvb():uint()
		elseif not last and n == index and first > 10 or not last and n == 2 then
			tree:add_le(f.longest, tvb())
			return "Longest name " .. tvb():le_uint()
		elseif not last and is_name(tvb, index) then
			return component(tvb, tree, 0, index)
		end
		return instruction(tvb, tree)
	end

	local function from_client(tvb, tree)
		local n, first = tvb:len(), tvb(0, 1):uint()
		if tvb():string():match("^[%a]+$") then
			tree:add(f.text, tvb())
			return "Hello"
		elseif last and n == 3 and first == 1 then
			tree:add_le(f.component, tvb(1, 2))
			return "Ignore component " .. tvb(1, 2):le_uint()
		elseif last and n == 1 and (first == 0 or first == 2) then
			tree:add(f.operation, tvb(0, 1)):set_text(first == 0 and "Hello" or "Start")
			return first == 0 and "Hello" or "Start"
		elseif n == 1 and first <= 11 then
			tree:add(f.key, tvb(0, 1))
			return "Key " .. first
		end
		return instruction(tvb, tree)
	end

	function proto.dissector(tvb, pinfo, root)
		if tvb:len() == 0 then return 0 end
		pinfo.cols.protocol = "R-Type"
		local tree = root:add(proto, tvb())
		local server = pinfo.match_uint == pinfo.src_port
		pinfo.cols.info = (server and from_server or from_client)(tvb, tree)
		return tvb:len()
	end
	DissectorTable.get("udp.port"):add_for_decode_as(proto)
end

rtype("rtype16", "R-Type, early", 2, 1, false)
rtype("rtype32", "R-Type, late", 4, 2, false)
rtype("rtypefinal", "R-Type, last game", 4, 2, true)
