// Reads packets in hexadecimal from standard input, one a line, and writes the answers.
using System;

public static class Harness
{
    public static void Main()
    {
        for (string line = Console.ReadLine(); line != null; line = Console.ReadLine())
        {
            var packet = new byte[line.Length / 2];
            for (int i = 0; i < packet.Length; i++)
                packet[i] = Convert.ToByte(line.Substring(2 * i, 2), 16);
            byte[] answer = Game.Answer(packet) ?? new byte[0];
            Console.WriteLine(BitConverter.ToString(answer).Replace("-", "").ToLower());
        }
    }
}
