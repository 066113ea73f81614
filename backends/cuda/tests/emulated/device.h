// What CUDA's libraries ask of the device.
#pragma once
#include <functional>
#include <string>
#include <vector>

typedef std::function<const char*()> Work; // gives null, or what went wrong

// What devices do together: its place in a stream is made known, and asked for whether all are there by now.
typedef std::function<bool()> Ready;
typedef std::function<Ready(void* stream, long ticket)> Meeting;

// The stream of what this thread gives next. CuPy tells it before each call of a library.
extern "C" void emulated_choose(void* stream);
void* emulated_chosen();

// Whether no work is done.
bool emulated_idles();

// Work for that stream over some memory, with a line for the record. False where it was done, and failed.
bool emulated_give(const std::string& line, Work work, const std::vector<const void*>& memory,
                   const Meeting& meeting = nullptr);

// From here on that stream's work is done, and the memory of the current device is there to be read and written.
void emulated_now();

// A stream goes on up to a ticket, if nobody is missing; otherwise `emulated_miss` has said who, for whoever waits.
bool emulated_advance(void* stream, long ticket);
void emulated_miss(const std::string& whom);
// Whoever waits next is told.
void emulated_fail(const std::string& why);
// The device of a stream, and the number of the capture that it takes part in, or 0.
int emulated_device(void* stream);
long emulated_capture(void* stream);
// Memory of any device; whether so many bytes are there.
bool emulated_has(const void* memory, size_t bytes);
std::string emulated_read(const void* from, size_t bytes);
void emulated_write(void* to, const std::string& bytes);
