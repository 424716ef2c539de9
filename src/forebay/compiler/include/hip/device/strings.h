// What kernels have of string.h that no compiler has built in.
#pragma once

extern "C" {
__DEVICE__ void* memmove(void* to, const void* from, size_t count) {
    char* target = (char*)to;
    const char* source = (const char*)from;
    if (target < source)
        for (size_t i = 0; i < count; i++)
            target[i] = source[i];
    else
        for (size_t i = count; i-- > 0;)
            target[i] = source[i];
    return to;
}
__DEVICE__ int memcmp(const void* x, const void* y, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (((const unsigned char*)x)[i] != ((const unsigned char*)y)[i])
            return ((const unsigned char*)x)[i] - ((const unsigned char*)y)[i];
    return 0;
}
__DEVICE__ void* memchr(const void* from, int value, size_t count) {
    for (const unsigned char* at = (const unsigned char*)from; count; at++, count--)
        if (*at == (unsigned char)value)
            return (void*)at;
    return nullptr;
}
__DEVICE__ size_t strlen(const char* text) {
    size_t count = 0;
    while (text[count])
        count++;
    return count;
}
__DEVICE__ int strncmp(const char* x, const char* y, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (x[i] != y[i] || !x[i])
            return (unsigned char)x[i] - (unsigned char)y[i];
    return 0;
}
__DEVICE__ int strcmp(const char* x, const char* y) { return strncmp(x, y, ~(size_t)0); }
__DEVICE__ char* strcpy(char* to, const char* from) {
    memcpy(to, from, strlen(from) + 1);
    return to;
}
}
