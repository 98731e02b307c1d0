// Answers one message as a game server would. Your server calls answer() with each packet of RakNet that begins with
// riptide::packetByte, and sends the result back.
#include "riptide_message.h"

// The IDs of the game's messages, as in the Unity project.
enum MessageId : uint16_t { Chat = 1, ChatFromServer = 2 };

std::vector<uint8_t> answer(const uint8_t* data, size_t size) {
    riptide::Reader in(data, size);
    if (!in.ok || in.id != Chat) return {};
    std::string name = in.String();
    int32_t score = in.Int();
    float x = in.Float();
    bool alive = in.Bool();
    if (!in.ok) return {};  // a value is missing: ignore the message
    return riptide::Writer(ChatFromServer).String("hello " + name).Int(score + 1).Float(x).Bool(!alive).data;
}
