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
    public sbyte SByte() { return (sbyte)Bits(8); }
    public bool Bool() { return Bits(1) != 0; }
    public ushort UShort() { return (ushort)Bits(16); }
    public short Short() { return (short)Bits(16); }
    public uint UInt() { return (uint)Bits(32); }
    public int Int() { return (int)UInt(); }
    public ulong ULong() { return Bits(64); }
    public long Long() { return (long)ULong(); }
    public float Float() { return BitConverter.ToSingle(BitConverter.GetBytes(UInt()), 0); }
    public double Double() { return BitConverter.Int64BitsToDouble(Long()); }
    public float[] Vector2() { return Floats(2); }    // x, y
    public float[] Vector3() { return Floats(3); }    // x, y, z
    public float[] Quaternion() { return Floats(4); } // x, y, z, w
    public ulong VarULong() { return Length(); }

    public long VarLong()
    {
        ulong value = Length();
        return (long)(value >> 1) ^ -(long)(value & 1);
    }

    /// <summary>Reads an array with its length: message.Array(message.Int).</summary>
    public T[] Array<T>(Func<T> read)
    {
        var values = new List<T>();
        for (ulong n = Length(); n > 0; n--)
            values.Add(read());
        return values.ToArray();
    }

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

    private float[] Floats(int n)
    {
        var values = new float[n];
        for (int i = 0; i < n; i++)
            values[i] = Float();
        return values;
    }

    /// <summary>Reads an unsigned number of n bits, at most 64.</summary>
    public ulong Bits(int n)
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
    public RiptideWriter SByte(sbyte value) { return Bits((byte)value, 8); }
    public RiptideWriter Bool(bool value) { return Bits(value ? 1u : 0u, 1); }
    public RiptideWriter UShort(ushort value) { return Bits(value, 16); }
    public RiptideWriter Short(short value) { return Bits((ushort)value, 16); }
    public RiptideWriter UInt(uint value) { return Bits(value, 32); }
    public RiptideWriter Int(int value) { return UInt((uint)value); }
    public RiptideWriter ULong(ulong value) { return Bits(value, 64); }
    public RiptideWriter Long(long value) { return ULong((ulong)value); }
    public RiptideWriter Float(float value) { return UInt(BitConverter.ToUInt32(BitConverter.GetBytes(value), 0)); }
    public RiptideWriter Double(double value) { return Long(BitConverter.DoubleToInt64Bits(value)); }
    public RiptideWriter Vector2(float[] value) { return Floats(value); }
    public RiptideWriter Vector3(float[] value) { return Floats(value); }
    public RiptideWriter Quaternion(float[] value) { return Floats(value); }
    public RiptideWriter VarULong(ulong value) { return Length(value); }
    public RiptideWriter VarLong(long value) { return Length((ulong)(value << 1 ^ value >> 63)); }

    /// <summary>Writes an array with its length: message.Array(values, message.Int).</summary>
    public RiptideWriter Array<T>(T[] values, Func<T, RiptideWriter> write)
    {
        Length((ulong)values.Length);
        foreach (T value in values)
            write(value);
        return this;
    }

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

    private RiptideWriter Floats(float[] values)
    {
        foreach (float value in values)
            Float(value);
        return this;
    }

    public RiptideWriter Bits(ulong value, int n)
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
