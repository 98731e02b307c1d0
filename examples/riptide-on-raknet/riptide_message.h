// Reads and writes Riptide 2.2 messages on a RakNet server behind Tidegate, on a route with envelope = "id".
//
// A RakNet message is: the packet byte 0x86, the message ID (2 bytes, low byte first), the values of the message.
// Values are strings of bits, the lowest bit of each byte first. C++11, no library.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace riptide {

const uint8_t packetByte = 0x86;  // packet_id of the route

// Reader reads the values of a message in the order in which the game added them.
class Reader {
public:
    uint16_t id = 0;
    bool ok = false;  // false: this is not a message of Riptide, or a value was missing

    Reader(const uint8_t* data, size_t size) : data(data), size(size) {
        if (size < 3 || data[0] != packetByte) return;
        id = uint16_t(data[1] | data[2] << 8);
        ok = true;
    }
    uint8_t Byte() { return uint8_t(Bits(8)); }
    bool Bool() { return Bits(1) != 0; }
    uint16_t UShort() { return uint16_t(Bits(16)); }
    int32_t Int() { return int32_t(uint32_t(Bits(32))); }
    float Float() {
        uint32_t bits = uint32_t(Bits(32));
        float value;
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }
    std::string String() {
        std::string text;
        for (uint64_t n = Length(); n > 0 && ok; n--) text += char(Byte());
        return text;
    }
    // Length reads the length of a string or an array: 7 bits a byte, the highest bit says that more follow.
    uint64_t Length() {
        uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            uint8_t b = Byte();
            value |= uint64_t(b & 0x7f) << shift;
            if (b < 0x80) return value;
        }
        ok = false;
        return 0;
    }

private:
    const uint8_t* data;
    size_t size, bit = 24;  // behind the packet byte and the ID

    uint64_t Bits(int n) {
        uint64_t value = 0;
        for (int i = 0; i < n; i++, bit++) {
            if (bit / 8 >= size) {
                ok = false;
                return 0;
            }
            value |= uint64_t(data[bit / 8] >> bit % 8 & 1) << i;
        }
        return value;
    }
};

// Writer makes a message for a Riptide client.
class Writer {
public:
    std::vector<uint8_t> data;  // hand it to RakPeerInterface::Send

    explicit Writer(uint16_t id) : data{packetByte, uint8_t(id), uint8_t(id >> 8)} {}
    Writer& Byte(uint8_t value) { return Bits(value, 8); }
    Writer& Bool(bool value) { return Bits(value, 1); }
    Writer& UShort(uint16_t value) { return Bits(value, 16); }
    Writer& Int(int32_t value) { return Bits(uint32_t(value), 32); }
    Writer& Float(float value) {
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        return Bits(bits, 32);
    }
    Writer& String(const std::string& text) {
        Length(text.size());
        for (char c : text) Byte(uint8_t(c));
        return *this;
    }
    Writer& Length(uint64_t value) {
        for (; value >= 0x80; value >>= 7) Byte(uint8_t(value | 0x80));
        return Byte(uint8_t(value));
    }

private:
    size_t bit = 24;

    Writer& Bits(uint64_t value, int n) {
        for (int i = 0; i < n; i++, bit++) {
            if (bit % 8 == 0) data.push_back(0);
            data[bit / 8] |= uint8_t((value >> i & 1) << bit % 8);
        }
        return *this;
    }
};

}  // namespace riptide
