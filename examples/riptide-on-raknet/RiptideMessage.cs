// Reads and writes Riptide 2.2 messages on a RakNet server behind Tidegate, on a route with envelope = "id".
//
// A RakNet message is: the packet byte 0x86, the message ID (2 bytes, low byte first), the values of the message.
// Values are strings of bits, the lowest bit of each byte first. C# 5, no library.
using System;
using System.Collections.Generic;
using System.Text;

/// <summary>Reads the values of a message in the order in which the game added them.</summary>
public class RiptideReader
{
    public const byte PacketByte = 0x86; // packet_id of the route
    public readonly ushort Id;

    private readonly byte[] data;
    private int bit = 24; // behind the packet byte and the ID

    public RiptideReader(byte[] data)
    {
        if (data.Length < 3 || data[0] != PacketByte)
            throw new FormatException("not a message of Riptide");
        this.data = data;
        Id = (ushort)(data[1] | data[2] << 8);
    }

    public byte Byte() { return (byte)Bits(8); }
    public bool Bool() { return Bits(1) != 0; }
    public ushort UShort() { return (ushort)Bits(16); }
    public int Int() { return (int)(uint)Bits(32); }
    public float Float() { return BitConverter.ToSingle(BitConverter.GetBytes((uint)Bits(32)), 0); }

    public string String()
    {
        ulong length = Length();
        if (length > (ulong)(data.Length - bit / 8))
            throw new FormatException("the message ends before its values");
        var text = new byte[length];
        for (int i = 0; i < text.Length; i++)
            text[i] = Byte();
        return Encoding.UTF8.GetString(text);
    }

    /// <summary>Reads the length of a string or an array: 7 bits a byte, the highest bit says that more follow.</summary>
    public ulong Length()
    {
        ulong value = 0;
        for (int shift = 0; shift < 64; shift += 7)
        {
            byte b = Byte();
            value |= (ulong)(b & 0x7f) << shift;
            if (b < 0x80)
                return value;
        }
        throw new FormatException("a length has too many bytes");
    }

    private ulong Bits(int n)
    {
        ulong value = 0;
        for (int i = 0; i < n; i++, bit++)
        {
            if (bit / 8 >= data.Length)
                throw new FormatException("the message ends before its values");
            value |= (ulong)(data[bit / 8] >> bit % 8 & 1) << i;
        }
        return value;
    }
}

/// <summary>Makes a message for a Riptide client.</summary>
public class RiptideWriter
{
    private readonly List<byte> data = new List<byte>();
    private int bit = 24;

    public RiptideWriter(ushort id)
    {
        data.AddRange(new[] { RiptideReader.PacketByte, (byte)id, (byte)(id >> 8) });
    }

    /// <summary>The message: hand it to your RakNet library.</summary>
    public byte[] ToArray() { return data.ToArray(); }

    public RiptideWriter Byte(byte value) { return Bits(value, 8); }
    public RiptideWriter Bool(bool value) { return Bits(value ? 1u : 0u, 1); }
    public RiptideWriter UShort(ushort value) { return Bits(value, 16); }
    public RiptideWriter Int(int value) { return Bits((uint)value, 32); }
    public RiptideWriter Float(float value) { return Bits(BitConverter.ToUInt32(BitConverter.GetBytes(value), 0), 32); }

    public RiptideWriter String(string text)
    {
        byte[] bytes = Encoding.UTF8.GetBytes(text);
        Length((ulong)bytes.Length);
        foreach (byte b in bytes)
            Byte(b);
        return this;
    }

    public RiptideWriter Length(ulong value)
    {
        for (; value >= 0x80; value >>= 7)
            Byte((byte)(value | 0x80));
        return Byte((byte)value);
    }

    private RiptideWriter Bits(ulong value, int n)
    {
        for (int i = 0; i < n; i++, bit++)
        {
            if (bit % 8 == 0)
                data.Add(0);
            data[bit / 8] |= (byte)((value >> i & 1) << bit % 8);
        }
        return this;
    }
}
