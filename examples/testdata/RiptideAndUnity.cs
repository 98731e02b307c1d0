// The signatures of Riptide 2.2 and of Unity that GameClient.cs uses, so that a compiler can check its grammar. They do
// nothing.
using System;

namespace UnityEngine
{
    public class MonoBehaviour { }
    public static class Debug { public static void Log(object message) { } }
}

namespace Riptide
{
    public enum MessageSendMode { Unreliable, Reliable, Notify }

    public class Message
    {
        public static Message Create(MessageSendMode sendMode, ushort id) { return new Message(); }
        public static Message Create(MessageSendMode sendMode, Enum id) { return new Message(); }
        public Message AddString(string value) { return this; }
        public Message AddInt(int value) { return this; }
        public Message AddFloat(float value) { return this; }
        public Message AddBool(bool value) { return this; }
        public string GetString() { return ""; }
        public int GetInt() { return 0; }
    }

    [AttributeUsage(AttributeTargets.Method)]
    public class MessageHandlerAttribute : Attribute { public MessageHandlerAttribute(ushort messageId) { } }

    public class Client
    {
        public event EventHandler Connected = delegate { };
        public bool Connect(string hostAddress) { Connected(this, EventArgs.Empty); return true; }
        public void Disconnect() { }
        public void Update() { }
        public ushort Send(Message message, bool shouldRelease = true) { return 0; }
    }
}

namespace Riptide.Utils
{
    public static class RiptideLogger
    {
        public delegate void LogMethod(string log);
        public static void Initialize(LogMethod logMethod, bool includeTimestamps) { }
    }
}
