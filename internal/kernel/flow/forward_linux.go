package flow

import (
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// find loads the key's flow and the time.
func find(flows *ebpf.Map) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, flows.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, keyAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "next"),
		asm.Mov.Reg(flow, asm.R0),
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(now, asm.R0),
	}
}

// The first bytes of DTLS records (RFC 7983), and of its alerts.
const (
	dtlsLeast = 20
	dtlsAlert = 21
	dtlsMost  = 63
)

// records leaves all but records to the sockets, where the flow has only records. Of a merged packet it sees the first
// datagram.
func records() asm.Instructions {
	code := asm.Instructions{
		asm.LoadMem(asm.R1, flow, atRecords, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "may pass"),
		asm.Mov.Imm(asm.R2, udpIPv6+udpLen),
		asm.LoadMem(asm.R1, ctx, skbProtocol, asm.Word),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.JEq.Imm(asm.R1, etherIPv6, "first byte"),
		asm.Mov.Imm(asm.R2, udpIPv4+udpLen),
		asm.Mov.Reg(asm.R1, ctx).WithSymbol("first byte"),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, wordAt),
		asm.Mov.Imm(asm.R4, 1),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "next"),
		asm.LoadMem(asm.R1, asm.RFP, wordAt, asm.Byte),
		asm.JLT.Imm(asm.R1, dtlsLeast, "next"),
		asm.JEq.Imm(asm.R1, dtlsAlert, "next"),
		asm.JGT.Imm(asm.R1, dtlsMost, "next"),
	}
	return append(code, asm.Mov.Imm(asm.R0, 0).WithSymbol("may pass"))
}

// admit leaves packets that exceed the outgoing MTU to the sockets, and drops packets beyond the rates. If two
// processors handle datagrams of one flow at once, one more may pass.
func admit() asm.Instructions {
	code := asm.Instructions{
		asm.LoadMem(asm.R1, asm.RFP, sizeAt, asm.Word),
		asm.Sub.Imm(asm.R1, udpLen),
		asm.StoreMem(asm.RFP, sizeAt, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, ctx, skbInterface, asm.Word),
		asm.LoadMem(asm.R2, flow, atInPlace, asm.Word),
		asm.JEq.Reg(asm.R1, asm.R2, "fits"),
		asm.StoreImm(asm.RFP, wordAt, 0, asm.Word),
		asm.Mov.Reg(asm.R1, ctx),
		asm.LoadMem(asm.R2, flow, atOut, asm.Word),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, wordAt),
		asm.Mov.Imm(asm.R4, 0),
		asm.Mov.Imm(asm.R5, everySegment),
		asm.FnCheckMtu.Call(),
		asm.JNE.Imm(asm.R0, 0, "next"),
		asm.Mov.Reg(asm.R5, weight).WithSymbol("fits"),
	}
	code = append(code, within(atPacket, "packet")...)
	code = append(code, asm.LoadMem(asm.R5, asm.RFP, sizeAt, asm.Word))
	return append(code, within(atByte, "byte")...)
}

// within takes the amount in R5 from the bucket at an offset of the entry.
func within(bucket int16, name string) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, flow, bucket+atCost, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, name+" done"),
		asm.LoadMem(asm.R2, flow, bucket+atDue, asm.DWord),
		asm.JGE.Reg(asm.R2, now, name+" ahead"),
		asm.Mov.Reg(asm.R2, now),
		asm.Mov.Reg(asm.R3, asm.R2).WithSymbol(name + " ahead"),
		asm.Sub.Reg(asm.R3, now),
		asm.LoadMem(asm.R4, flow, bucket+atTolerance, asm.DWord),
		asm.JGT.Reg(asm.R3, asm.R4, "beyond"),
		asm.Mul.Reg(asm.R1, asm.R5),
		asm.RSh.Imm(asm.R1, costShift),
		asm.Add.Reg(asm.R2, asm.R1),
		asm.StoreMem(flow, bucket+atDue, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(name + " done"),
	}
}

// account counts the datagram in its flow and in this processor's totals.
func account(totals *ebpf.Map) asm.Instructions {
	return append(asm.Instructions{
		asm.StoreMem(flow, atSeen, now, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, sizeAt, asm.Word),
		asm.AddAtomic.Mem(flow, weight, asm.DWord, atPackets),
		asm.AddAtomic.Mem(flow, asm.R1, asm.DWord, atBytes),
	}, append(total(totals, "rewrite"),
		asm.LoadMem(asm.R1, asm.R0, totalPackets, asm.DWord),
		asm.Add.Reg(asm.R1, weight),
		asm.StoreMem(asm.R0, totalPackets, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R0, totalBytes, asm.DWord),
		asm.LoadMem(asm.R2, asm.RFP, sizeAt, asm.Word),
		asm.Add.Reg(asm.R1, asm.R2),
		asm.StoreMem(asm.R0, totalBytes, asm.R1, asm.DWord),

		asm.LoadMem(asm.R1, ctx, skbProtocol, asm.Word).WithSymbol("rewrite"),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.JEq.Imm(asm.R1, etherIPv6, "rewrite IPv6"),
	)...)
}

// Offsets in a Count.
const (
	totalPackets = int16(unsafe.Offsetof(Count{}.Packets))
	totalBytes   = int16(unsafe.Offsetof(Count{}.Bytes))
	totalDropped = int16(unsafe.Offsetof(Count{}.Dropped))
)

// total points R0 to this processor's total of the flow's direction, or jumps to none if there is no total.
func total(totals *ebpf.Map, none string) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, flow, atDirection, asm.DWord),
		asm.StoreMem(asm.RFP, wordAt, asm.R1, asm.Word),
		asm.LoadMapPtr(asm.R1, totals.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, wordAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, none),
	}
}

// discard counts and drops packets beyond a rate.
func discard(totals *ebpf.Map) asm.Instructions {
	code := asm.Instructions{asm.AddAtomic.Mem(flow, weight, asm.DWord, atDropped).WithSymbol("beyond")}
	code = append(code, total(totals, "drop")...)
	return append(code,
		asm.LoadMem(asm.R1, asm.R0, totalDropped, asm.DWord),
		asm.Add.Reg(asm.R1, weight),
		asm.StoreMem(asm.R0, totalDropped, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, drop).WithSymbol("drop"),
		asm.Return(),
	)
}

// rewriteIPv4 writes the sums first; only the finished packet is visible to others. The IP header's sum compensates for
// the addresses, so that a sum of the whole packet from the network card stays valid.
func rewriteIPv4() asm.Instructions {
	code := asm.Instructions{
		asm.Mov.Reg(asm.R1, ctx),
		asm.Mov.Imm(asm.R2, ipSumAt),
		asm.Mov.Imm(asm.R3, 0),
		asm.LoadMem(asm.R4, flow, atIPSum, asm.Word),
		asm.Mov.Imm(asm.R5, 0),
		asm.FnL3CsumReplace.Call(),
		asm.JNE.Imm(asm.R0, 0, "drop"),
	}
	code = append(code, sums(udpIPv4)...)
	code = append(code, store(ttlIPv4, asm.RFP, headers+8, 1, 0)...)
	return append(code, store(sourceIPv4, flow, 0, 12, 0)...)
}

// rewriteIPv6 makes the kernel compensate for the addresses, since IPv6 has no header sum. Ports and UDP sum cancel
// out.
func rewriteIPv6() asm.Instructions {
	code := store(hopsIPv6, asm.RFP, headers+7, 1, recomputeSum)
	code[0] = code[0].WithSymbol("rewrite IPv6")
	code = append(code, store(sourceIPv6, flow, 0, 32, recomputeSum)...)
	code = append(code, sums(udpIPv6)...)
	return append(code, store(udpIPv6, flow, 32, 4, 0)...)
}

// sums updates the UDP sum. The addresses count even if the network card completes the sum; the ports do not.
func sums(udp int32) asm.Instructions {
	var code asm.Instructions
	for _, change := range []struct {
		at    int16
		flags int32
	}{{atAddrSum, pseudoHeader | mangledZero}, {atPortSum, mangledZero}} {
		code = append(code,
			asm.Mov.Reg(asm.R1, ctx),
			asm.Mov.Imm(asm.R2, udp+udpSumAt),
			asm.Mov.Imm(asm.R3, 0),
			asm.LoadMem(asm.R4, flow, change.at, asm.Word),
			asm.Mov.Imm(asm.R5, change.flags),
			asm.FnL4CsumReplace.Call(),
			asm.JNE.Imm(asm.R0, 0, "drop"),
		)
	}
	return code
}

// store writes bytes at a pointer's offset into the packet.
func store(at int32, from asm.Register, offset, length, flags int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, ctx),
		asm.Mov.Imm(asm.R2, at),
		asm.Mov.Reg(asm.R3, from),
		asm.Add.Imm(asm.R3, offset),
		asm.Mov.Imm(asm.R4, length),
		asm.Mov.Imm(asm.R5, flags),
		asm.FnSkbStoreBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "drop"),
	}
}

// send makes the kernel find the neighbor and send. It also sends by the loopback interface: the packet then has a
// route, so that its source address, one of our own, is accepted. A packet that arrived by the loopback and stays there
// has a route already.
func send() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, ctx, skbInterface, asm.Word).WithSymbol("send"),
		asm.LoadMem(asm.R2, flow, atInPlace, asm.Word),
		asm.JEq.Reg(asm.R1, asm.R2, "next"),
		asm.LoadMem(asm.R1, flow, atOut, asm.Word),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRedirectNeigh.Call(),
		asm.Return(),

		asm.Mov.Imm(asm.R0, next).WithSymbol("next"),
		asm.Return(),
	}
}
