// Reads and writes Riptide 2.2 messages on a RakNet server behind Tidegate, on a route with envelope = "id".
//
// A RakNet message is: the packet byte 0x86, the message ID (2 bytes, low byte first), the values of the message.
// Values are strings of bits, the lowest bit of each byte first. C++11, no library.
#pragma once
#include <array>
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
    int8_t SByte() { return int8_t(Byte()); }
    bool Bool() { return Bits(1) != 0; }
    uint16_t UShort() { return uint16_t(Bits(16)); }
    int16_t Short() { return int16_t(UShort()); }
    uint32_t UInt() { return uint32_t(Bits(32)); }
    int32_t Int() { return int32_t(UInt()); }
    uint64_t ULong() { return Bits(64); }
    int64_t Long() { return int64_t(ULong()); }
    float Float() {
        uint32_t bits = UInt();
        float value;
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }
    double Double() {
        uint64_t bits = ULong();
        double value;
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }
    std::array<float, 2> Vector2() { return Floats<2>(); }     // x, y
    std::array<float, 3> Vector3() { return Floats<3>(); }     // x, y, z
    std::array<float, 4> Quaternion() { return Floats<4>(); }  // x, y, z, w
    uint64_t VarULong() { return Length(); }
    int64_t VarLong() {
        uint64_t value = Length();
        return int64_t(value >> 1 ^ (0 - (value & 1)));
    }
    // Array reads an array with its length: in.Array(&riptide::Reader::Int).
    template <class T>
    std::vector<T> Array(T (Reader::*read)()) {
        std::vector<T> values;
        for (uint64_t n = Length(); n > 0 && ok; n--) values.push_back((this->*read)());
        return values;
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
    // Bits reads an unsigned number of n bits, at most 64.
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

private:
    const uint8_t* data;
    size_t size, bit = 24;  // behind the packet byte and the ID

    template <size_t n>
    std::array<float, n> Floats() {
        std::array<float, n> values;
        for (float& value : values) value = Float();
        return values;
    }
};

// Writer makes a message for a Riptide client.
class Writer {
public:
    std::vector<uint8_t> data;  // hand it to RakPeerInterface::Send

    explicit Writer(uint16_t id) : data{packetByte, uint8_t(id), uint8_t(id >> 8)} {}
    Writer& Byte(uint8_t value) { return Bits(value, 8); }
    Writer& SByte(int8_t value) { return Byte(uint8_t(value)); }
    Writer& Bool(bool value) { return Bits(value, 1); }
    Writer& UShort(uint16_t value) { return Bits(value, 16); }
    Writer& Short(int16_t value) { return UShort(uint16_t(value)); }
    Writer& UInt(uint32_t value) { return Bits(value, 32); }
    Writer& Int(int32_t value) { return UInt(uint32_t(value)); }
    Writer& ULong(uint64_t value) { return Bits(value, 64); }
    Writer& Long(int64_t value) { return ULong(uint64_t(value)); }
    Writer& Float(float value) {
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        return UInt(bits);
    }
    Writer& Double(double value) {
        uint64_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        return ULong(bits);
    }
    Writer& Vector2(const std::array<float, 2>& v) { return Floats(v.data(), 2); }
    Writer& Vector3(const std::array<float, 3>& v) { return Floats(v.data(), 3); }
    Writer& Quaternion(const std::array<float, 4>& v) { return Floats(v.data(), 4); }
    Writer& VarULong(uint64_t value) { return Length(value); }
    Writer& VarLong(int64_t value) { return Length(uint64_t(value) << 1 ^ (value < 0 ? ~uint64_t(0) : 0)); }
    // Array writes an array with its length: out.Array(values, &riptide::Writer::Int).
    template <class T, class As>
    Writer& Array(const std::vector<T>& values, Writer& (Writer::*write)(As)) {
        Length(values.size());
        for (size_t i = 0; i < values.size(); i++) (this->*write)(values[i]);
        return *this;
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

    Writer& Bits(uint64_t value, int n) {
        for (int i = 0; i < n; i++, bit++) {
            if (bit % 8 == 0) data.push_back(0);
            data[bit / 8] |= uint8_t((value >> i & 1) << bit % 8);
        }
        return *this;
    }

private:
    size_t bit = 24;

    Writer& Floats(const float* values, size_t n) {
        for (size_t i = 0; i < n; i++) Float(values[i]);
        return *this;
    }
};

}  // namespace riptide
