package decode

import (
	"bufio"
	"encoding/binary"
	"strings"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

func isPcapng(start []byte) bool { return string(start) == "\x0a\x0d\x0d\x0a" }

func readPcapng(in *bufio.Reader, port uint16, take func(*record) error) error {
	needed := &blocks{in: in, order: binary.LittleEndian}
	reader, err := pcapgo.NewNgReader(needed, pcapgo.NgReaderOptions{WantMixedLinkType: true})
	if err != nil {
		return err
	}
	return readPackets(func() (p captured, err error) {
		var about pcapgo.NgPacketOptions
		if p.data, p.info, about, err = reader.ReadPacketDataWithOptions(); err != nil {
			return p, err
		}
		p.link = p.info.AncillaryData[0].(layers.LinkType)
		p.note = strings.Join(about.Comments, "; ")
		if strings.HasPrefix(reader.SectionInfo().Application, "tidegate ") && about.Flags != nil {
			from, err := reader.Interface(p.info.InterfaceIndex)
			if err != nil {
				return p, err
			}
			p.side = sideOf(from.Name, about.Flags.Direction)
		}
		return p, nil
	}, port, take)
}

// upstreamInterface is the name that our own captures give to the side of the servers.
const upstreamInterface = "upstream"

// sideOf returns the sender of a packet that our own command has captured. The names of its interfaces tell the sides.
func sideOf(leadsTo string, direction pcapgo.NgEpbFlag) side {
	inbound, outbound := clientSide, serverSide
	if leadsTo == upstreamInterface {
		inbound, outbound = serverSide, clientSide
	}
	switch direction {
	case pcapgo.NgEpbFlagDirectionInbound:
		return inbound
	case pcapgo.NgEpbFlagDirectionOutbound:
		return outbound
	}
	return anySide
}
