//go:build !linux

package netio

import "net"

// leastBuffer is the least receive buffer that is worth a try.
const leastBuffer = 64 << 10

// setReadBuffer sizes the receive buffer of a socket. Some systems refuse more than their limit: they get asked for
// less.
func setReadBuffer(conn *net.UDPConn, size int) error {
	_, err := askBuffer(conn, size)
	return err
}

func askBuffer(conn *net.UDPConn, size int) (given int, err error) {
	for given = size; ; given /= 2 {
		if err = conn.SetReadBuffer(given); err == nil || given/2 < leastBuffer {
			return given, err
		}
	}
}

// GrantedBuffer is how much of a receive buffer of the given size the system allows this process.
func GrantedBuffer(size int) (int, error) {
	conn, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return 0, err
	}
	given, err := askBuffer(conn, size)
	_ = conn.Close() // nothing was sent
	return given, err
}
