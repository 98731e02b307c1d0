package shield

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
)

// Return values of an XDP program.
const (
	xdpDrop = 1
	xdpPass = 2
)

// Offsets in a packet, in bytes from its start. They are fixed, since headers with options pass unread.
const (
	etherLen = 14
	typeAt   = 12
	ipv4     = etherLen
	udpIPv4  = ipv4 + 20
	ipv6     = etherLen
	udpIPv6  = ipv6 + 40

	protocolUDP = 17
	moreOrAny   = 0x3fff // more fragments follow, or it is not the first
)

// Register use until the checks begin.
const (
	packet = asm.R2
	end    = asm.R3
)

// interfaceCode fills the stack and the registers. Packets for other destinations than a listener pass.
func interfaceCode(targets int) asm.Instructions {
	code := asm.Instructions{
		asm.LoadMem(packet, asm.R1, 0, asm.Word),
		asm.LoadMem(end, asm.R1, 4, asm.Word),
		asm.StoreImm(asm.RFP, targetAt+18, 0, asm.Half),
	}
	code = append(code, need(udpIPv4+udpHeader)...)
	code = append(code,
		asm.LoadMem(asm.R1, packet, typeAt, asm.Half),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.JEq.Imm(asm.R1, etherIPv6, "ipv6"),
		asm.JNE.Imm(asm.R1, etherIPv4, "pass"),
	)
	code = append(code, ipv4Code()...)
	code = append(code, udpCode(udpIPv4)...)
	code = append(code, asm.Ja.Label("listener"), asm.Mov.Imm(asm.R1, 0).WithSymbol("ipv6"))
	code = append(code, ipv6Code()...)
	code = append(code, udpCode(udpIPv6)...)
	return append(code,
		asm.LoadMapPtr(asm.R1, targets).WithSymbol("listener"),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, targetAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.Mov.Reg(tables, asm.R0),
		asm.Mov.Imm(weight, 1),
	)
}

// need passes packets shorter than n bytes.
func need(n int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R4, packet),
		asm.Add.Imm(asm.R4, n),
		asm.JGT.Reg(asm.R4, end, "pass"),
	}
}

func ipv4Code() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, packet, ipv4, asm.Byte),
		asm.JNE.Imm(asm.R1, 0x45, "pass"), // version 4, 5 words of header
		asm.LoadMem(asm.R1, packet, ipv4+6, asm.Half),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.And.Imm(asm.R1, moreOrAny),
		asm.JNE.Imm(asm.R1, 0, "pass"),
		asm.LoadMem(asm.R1, packet, ipv4+9, asm.Byte),
		asm.JNE.Imm(asm.R1, protocolUDP, "pass"),

		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, addrAt, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, targetAt, asm.R1, asm.DWord),
		asm.StoreImm(asm.RFP, addrAt+8, 0, asm.Half),
		asm.StoreImm(asm.RFP, addrAt+10, 0xffff, asm.Half),
		asm.StoreImm(asm.RFP, targetAt+8, 0, asm.Half),
		asm.StoreImm(asm.RFP, targetAt+10, 0xffff, asm.Half),
		asm.LoadMem(asm.R1, packet, ipv4+12, asm.Word),
		asm.StoreMem(asm.RFP, addrAt+12, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, packet, ipv4+16, asm.Word),
		asm.StoreMem(asm.RFP, targetAt+12, asm.R1, asm.Word),
	}
}

func ipv6Code() asm.Instructions {
	code := append(need(udpIPv6+udpHeader),
		asm.LoadMem(asm.R1, packet, ipv6+6, asm.Byte),
		asm.JNE.Imm(asm.R1, protocolUDP, "pass"),
	)
	for i := int16(0); i < 16; i += 4 { // an IPv6 header is aligned to 4 bytes only
		code = append(code,
			asm.LoadMem(asm.R1, packet, ipv6+8+i, asm.Word),
			asm.StoreMem(asm.RFP, addrAt+i, asm.R1, asm.Word),
			asm.LoadMem(asm.R1, packet, ipv6+24+i, asm.Word),
			asm.StoreMem(asm.RFP, targetAt+i, asm.R1, asm.Word),
		)
	}
	return code
}

// udpCode reads the port and the first byte. The UDP length decides whether a datagram is empty, since Ethernet pads
// it.
func udpCode(udp int16) asm.Instructions {
	done := fmt.Sprintf("read %d", udp)
	code := asm.Instructions{
		asm.LoadMem(asm.R1, packet, udp+2, asm.Half),
		asm.StoreMem(asm.RFP, targetAt+16, asm.R1, asm.Half),
		asm.LoadMem(asm.R1, packet, udp, asm.Word),
		asm.StoreMem(asm.RFP, portsAt, asm.R1, asm.Word),
		asm.Mov.Imm(first, noByte),
		asm.LoadMem(asm.R1, packet, udp+4, asm.Half),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.JLE.Imm(asm.R1, udpHeader, done),
	}
	code = append(code, need(int32(udp)+udpHeader+1)...)
	return append(code,
		asm.LoadMem(first, packet, udp+udpHeader, asm.Byte),
		asm.Mov.Imm(asm.R1, 0).WithSymbol(done),
	)
}
