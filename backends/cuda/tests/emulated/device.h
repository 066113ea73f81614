// What CUDA's libraries ask of the device.
#pragma once
#include <functional>
#include <string>
#include <vector>

typedef std::function<const char*()> Work; // gives null, or what went wrong

// The stream of what this thread gives next. CuPy tells it before each call of a library.
extern "C" void emulated_choose(void* stream);
void* emulated_chosen();

// Whether no work is done.
bool emulated_idles();

// Work for that stream over some memory, with a line for the record. False where it was done, and failed.
bool emulated_give(const std::string& line, Work work, const std::vector<const void*>& memory);

// From here on that stream's work is done, and the memory of the current device is there to be read and written.
void emulated_now();
