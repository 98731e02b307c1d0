// Reads lines from standard input. A packet in hexadecimal is answered as the game does. After the types of its values,
// the values are written, and the packet made again of them.
#include "server.cpp"

#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>

using riptide::Reader;
using riptide::Writer;

static std::string hex(const std::vector<uint8_t>& bytes) {
    std::string text;
    for (uint8_t b : bytes) text += std::string(1, "0123456789abcdef"[b >> 4]) + "0123456789abcdef"[b & 15];
    return text;
}

template <class T>
static std::string text(T value) { return std::to_string(value); }
static std::string text(double value) {
    if (value != value) return "nan";
    char out[40];
    std::snprintf(out, sizeof out, "%.17g", value);
    return out;
}
static std::string text(float value) { return text(double(value)); }
static std::string text(const std::string& value) { return "x" + hex(std::vector<uint8_t>(value.begin(), value.end())); }
template <size_t n>
static std::string text(const std::array<float, n>& values) {
    std::string all;
    for (float value : values) all += (all.empty() ? "" : " ") + text(value);
    return all;
}

typedef std::function<std::string(Reader&, Writer&)> Copy;
static std::map<std::string, Copy> copies;

template <class T, class As>
static void add(const std::string& name, T (Reader::*read)(), Writer& (Writer::*write)(As)) {
    copies[name] = [=](Reader& in, Writer& out) {
        T value = (in.*read)();
        (out.*write)(value);
        return text(value);
    };
    copies[name + "[]"] = [=](Reader& in, Writer& out) {
        std::vector<T> values = in.Array(read);
        out.Array(values, write);
        std::string all = std::to_string(values.size());
        for (size_t i = 0; i < values.size(); i++) all += " " + text(T(values[i]));
        return all;
    };
}

static std::string again(const std::string& types, const std::vector<uint8_t>& packet) {
    Reader in(packet.data(), packet.size());
    Writer out(in.id);
    std::istringstream names(types);
    std::string name, all;
    while (std::getline(names, name, ',')) {
        if (name.compare(0, 4, "bits") == 0) {
            int n = std::stoi(name.substr(4));
            uint64_t value = in.Bits(n);
            out.Bits(value, n);
            all += text(value) + " ";
        } else {
            all += copies.at(name)(in, out) + " ";
        }
    }
    return in.ok ? all + hex(out.data) : "short";
}

int main() {
    add("byte", &Reader::Byte, &Writer::Byte);
    add("sbyte", &Reader::SByte, &Writer::SByte);
    add("bool", &Reader::Bool, &Writer::Bool);
    add("short", &Reader::Short, &Writer::Short);
    add("ushort", &Reader::UShort, &Writer::UShort);
    add("int", &Reader::Int, &Writer::Int);
    add("uint", &Reader::UInt, &Writer::UInt);
    add("long", &Reader::Long, &Writer::Long);
    add("ulong", &Reader::ULong, &Writer::ULong);
    add("float", &Reader::Float, &Writer::Float);
    add("double", &Reader::Double, &Writer::Double);
    add("string", &Reader::String, &Writer::String);
    add("varlong", &Reader::VarLong, &Writer::VarLong);
    add("varulong", &Reader::VarULong, &Writer::VarULong);
    add("vector2", &Reader::Vector2, &Writer::Vector2);
    add("vector3", &Reader::Vector3, &Writer::Vector3);
    add("quaternion", &Reader::Quaternion, &Writer::Quaternion);
    std::string line;
    while (std::getline(std::cin, line)) {
        size_t space = line.find(' ');
        std::string digits = space == std::string::npos ? line : line.substr(space + 1);
        std::vector<uint8_t> packet;
        for (size_t i = 0; i + 1 < digits.size(); i += 2) packet.push_back(uint8_t(std::stoi(digits.substr(i, 2), nullptr, 16)));
        if (space == std::string::npos) {
            std::cout << hex(answer(packet.data(), packet.size())) << std::endl;
        } else {
            std::cout << again(line.substr(0, space), packet) << std::endl;
        }
    }
}
