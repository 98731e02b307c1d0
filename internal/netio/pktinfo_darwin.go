package netio

import "golang.org/x/sys/unix"

const receivePktinfo = unix.IP_RECVPKTINFO
