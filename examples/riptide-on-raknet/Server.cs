// Answers one message as a game server would. Your server calls Answer with each packet of RakNet that begins with
// RiptideReader.PacketByte, and sends the result back.
using System;

public static class Game
{
    // The IDs of the game's messages, as in the Unity project.
    private const ushort Chat = 1, ChatFromServer = 2;

    public static byte[] Answer(byte[] data)
    {
        try
        {
            var message = new RiptideReader(data);
            if (message.Id != Chat)
                return null;
            string name = message.String();
            int score = message.Int();
            float x = message.Float();
            bool alive = message.Bool();
            return new RiptideWriter(ChatFromServer)
                .String("hello " + name).Int(score + 1).Float(x).Bool(!alive).ToArray();
        }
        catch (FormatException)
        {
            return null; // a value is missing: ignore the message
        }
    }
}
