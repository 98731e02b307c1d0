// Reads packets in hexadecimal from standard input, one a line, and writes the answers.
#include "server.cpp"

#include <cstdio>
#include <iostream>

int main() {
    std::string line;
    while (std::getline(std::cin, line)) {
        std::vector<uint8_t> packet;
        for (size_t i = 0; i + 1 < line.size(); i += 2) packet.push_back(uint8_t(std::stoi(line.substr(i, 2), nullptr, 16)));
        for (uint8_t b : answer(packet.data(), packet.size())) std::printf("%02x", b);
        std::printf("\n");
        std::fflush(stdout);
    }
}
