package codectest

import (
	"testing"
	"time"

	"tidegate/codec"
)

// toyConfig is what the toy codec promises, whether or not it then keeps it.
func toyConfig(fault string) Config {
	factoryFrom := func(first toySeq) factory {
		return func(uint64) (server, client codec.Protocol) {
			return &toyProtocol{fault: fault, first: first}, &toyProtocol{fault: fault, first: first}
		}
	}
	data := codec.Goodbye{Reason: codec.RejectedCustom, Data: []byte{1, 2, 3}}
	kick := codec.Goodbye{Reason: codec.Kicked, Data: []byte("afk"), Pad: 2}
	return Config{
		New:              factoryFrom(1),
		NearWrap:         factoryFrom(0xffff - 10),
		MaxPayload:       func(codec.Mode) int { return toyMaxPayload },
		Pads:             []uint8{0, 3},
		IDs:              (&toyProtocol{}).Modes(),
		Repeats:          false,
		HelloData:        true,
		HelloIdentity:    true,
		ClientIDs:        true,
		Refusals:         []Farewell{{data, data}},
		Kicks:            []Farewell{{kick, kick}},
		StatelessRefusal: codec.ServerFull,
		Timeout:          5 * time.Second,
		DialTimeout:      6 * time.Second,
		MaxMemory:        64 << 10,
	}
}

func TestToyPasses(t *testing.T) { Run(t, toyConfig("")) }
