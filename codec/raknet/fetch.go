package raknet

import "tidegate/codec"

// Fetch implements codec.Fetcher.
func (c *Conn) Fetch(step int) {
	f, r := &c.sender.flight, &c.receiver
	switch step {
	case 0:
		codec.Touch(c)
	case 1:
		codec.Touch(c.workspace)
		touchFirst(r.reliable.seen)
		touchFirst(r.channels.list)
	case 2:
		touchFirst(f.parts)
		if len(f.ring) > 0 {
			codec.Touch(f.at(f.Base))
			codec.Touch(f.at(f.next))
		}
	}
}

func touchFirst[T any](list []T) {
	if len(list) > 0 {
		codec.Touch(&list[0])
	}
}
