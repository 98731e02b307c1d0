package enet

// connect is the body of a Connect. Without its last field it is that of a VerifyConnect:
//
//	0..1    the sender's own ID
//	2, 3    the client's incoming and outgoing session
//	4..7    MTU
//	8..11   window in bytes
//	12..15  channels
//	16..19  incoming bandwidth in bytes a second, 0 for no limit
//	20..23  outgoing bandwidth
//	24..35  throttle: interval in ms, acceleration, deceleration
//	36..39  connect ID, 4 opaque bytes
//	40..43  connect data, of a Connect only
type connect struct {
	id                    uint16
	incoming, outgoing    uint8
	mtu, window, channels uint32
	in, out               uint32
	throttle              throttleTerms
	connectID             [4]byte
	data                  uint32
}

const (
	verifyLen  = 40
	connectLen = verifyLen + 4
)

// parse reads a body of verifyLen or connectLen bytes.
func (c *connect) parse(b []byte) {
	c.id, c.incoming, c.outgoing = be.Uint16(b), b[2], b[3]
	c.mtu, c.window, c.channels = be.Uint32(b[4:]), be.Uint32(b[8:]), be.Uint32(b[12:])
	c.in, c.out = be.Uint32(b[16:]), be.Uint32(b[20:])
	c.throttle.parse(b[24:])
	copy(c.connectID[:], b[36:])
	if len(b) >= connectLen {
		c.data = be.Uint32(b[40:])
	}
}

// appendVerify appends the body of a VerifyConnect.
func (c *connect) appendVerify(b []byte) []byte {
	b = append(be.AppendUint16(b, c.id), c.incoming, c.outgoing)
	b = be.AppendUint32(be.AppendUint32(be.AppendUint32(b, c.mtu), c.window), c.channels)
	b = be.AppendUint32(be.AppendUint32(b, c.in), c.out)
	b = c.throttle.append(b)
	return append(b, c.connectID[:]...)
}

// append appends the body of a Connect.
func (c *connect) append(b []byte) []byte { return be.AppendUint32(c.appendVerify(b), c.data) }

// Bounds of a window, and the window of a peer without a bandwidth limit. docs/protocols/enet.md#window
const (
	minWindow   = 4096
	maxWindow   = 65536
	windowScale = 65536
)

// windowOf returns the window for a peer's incoming bandwidth.
func windowOf(bandwidth uint32) int {
	if bandwidth == 0 {
		return maxWindow
	}
	return min(max(int(bandwidth/windowScale)*minWindow, minWindow), maxWindow)
}

// dataOf returns the number that carries a hello's or a goodbye's data. Data of another size than 4 bytes does not
// fit.
func dataOf(data []byte) uint32 {
	if len(data) != 4 {
		return 0
	}
	return be.Uint32(data)
}

// dataBytes returns the data of an event. The wire has no difference between 0 and no data.
func dataBytes(v uint32) []byte {
	if v == 0 {
		return nil
	}
	return be.AppendUint32(nil, v)
}
