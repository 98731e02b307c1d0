// A component of the Unity project. It needs the package Riptide 2.2.
using Riptide;
using Riptide.Utils;
using UnityEngine;

public class GameClient : MonoBehaviour
{
    // The IDs of the game's messages, as on the server.
    private enum MessageId : ushort { Chat = 1, ChatFromServer = 2 }

    private Client client;

    private void Start()
    {
        RiptideLogger.Initialize(Debug.Log, true);
        client = new Client();
        client.Connected += (sender, e) => SendChat("Ada", 41, 1.5f, true);
        client.Connect("127.0.0.1:7777"); // Tidegate's listener
    }

    private void FixedUpdate()
    {
        client.Update();
    }

    private void OnApplicationQuit()
    {
        client.Disconnect();
    }

    private void SendChat(string name, int score, float x, bool alive)
    {
        Message message = Message.Create(MessageSendMode.Reliable, MessageId.Chat);
        message.AddString(name).AddInt(score).AddFloat(x).AddBool(alive);
        client.Send(message);
    }

    [MessageHandler((ushort)MessageId.ChatFromServer)]
    private static void OnChat(Message message)
    {
        Debug.Log(message.GetString() + ", score " + message.GetInt());
    }
}
