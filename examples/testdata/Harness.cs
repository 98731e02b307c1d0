// Reads lines from standard input. A packet in hexadecimal is answered as the game does. After the types of its values,
// the values are written, and the packet made again of them.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Text;

public static class Harness
{
    private static RiptideReader reading;
    private static RiptideWriter writing;
    private static readonly Dictionary<string, Func<string>> copies = new Dictionary<string, Func<string>>();

    private static string Hex(byte[] bytes) { return BitConverter.ToString(bytes).Replace("-", "").ToLower(); }

    private static string Text(object value)
    {
        if (value is string)
            return "x" + Hex(Encoding.UTF8.GetBytes((string)value));
        if (value is float[])
            return string.Join(" ", ((float[])value).Select(v => Text(v)));
        if (value is float || value is double)
            return ((IFormattable)value).ToString("R", CultureInfo.InvariantCulture);
        return Convert.ToString(value, CultureInfo.InvariantCulture).ToLower();
    }

    private static void Add<T>(string name, Func<RiptideReader, Func<T>> read,
        Func<RiptideWriter, Func<T, RiptideWriter>> write)
    {
        copies[name] = () =>
        {
            T value = read(reading)();
            write(writing)(value);
            return Text(value);
        };
        copies[name + "[]"] = () =>
        {
            T[] values = reading.Array(read(reading));
            writing.Array(values, write(writing));
            return string.Join(" ", new[] { values.Length.ToString() }.Concat(values.Select(v => Text(v))));
        };
    }

    private static string Again(string types, byte[] packet)
    {
        try
        {
            reading = new RiptideReader(packet);
            writing = new RiptideWriter(reading.Id);
            var all = new List<string>();
            foreach (string name in types.Split(','))
            {
                if (!name.StartsWith("bits"))
                {
                    all.Add(copies[name]());
                    continue;
                }
                int n = int.Parse(name.Substring(4));
                ulong value = reading.Bits(n);
                writing.Bits(value, n);
                all.Add(Text(value));
            }
            return string.Join(" ", all) + " " + Hex(writing.ToArray());
        }
        catch (FormatException)
        {
            return "short";
        }
    }

    public static void Main()
    {
        Add<byte>("byte", r => r.Byte, w => w.Byte);
        Add<sbyte>("sbyte", r => r.SByte, w => w.SByte);
        Add<bool>("bool", r => r.Bool, w => w.Bool);
        Add<short>("short", r => r.Short, w => w.Short);
        Add<ushort>("ushort", r => r.UShort, w => w.UShort);
        Add<int>("int", r => r.Int, w => w.Int);
        Add<uint>("uint", r => r.UInt, w => w.UInt);
        Add<long>("long", r => r.Long, w => w.Long);
        Add<ulong>("ulong", r => r.ULong, w => w.ULong);
        Add<float>("float", r => r.Float, w => w.Float);
        Add<double>("double", r => r.Double, w => w.Double);
        Add<string>("string", r => r.String, w => w.String);
        Add<long>("varlong", r => r.VarLong, w => w.VarLong);
        Add<ulong>("varulong", r => r.VarULong, w => w.VarULong);
        Add<float[]>("vector2", r => r.Vector2, w => w.Vector2);
        Add<float[]>("vector3", r => r.Vector3, w => w.Vector3);
        Add<float[]>("quaternion", r => r.Quaternion, w => w.Quaternion);
        for (string line = Console.ReadLine(); line != null; line = Console.ReadLine())
        {
            string digits = line.Substring(line.IndexOf(' ') + 1);
            var packet = new byte[digits.Length / 2];
            for (int i = 0; i < packet.Length; i++)
                packet[i] = Convert.ToByte(digits.Substring(2 * i, 2), 16);
            Console.WriteLine(digits == line
                ? Hex(Game.Answer(packet) ?? new byte[0]) : Again(line.Substring(0, line.IndexOf(' ')), packet));
        }
    }
}
