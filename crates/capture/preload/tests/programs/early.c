/* A library whose start makes calls before libblkkin_preload's start. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int early_result;

__attribute__((constructor)) static void early(void)
{
	char byte = 1;
	int fd = open("/dev/zero", O_RDONLY);
	early_result = fd >= 0 && read(fd, &byte, 1) == 1 && byte == 0 && fcntl(fd, F_GETFD) == 0
		&& close(fd) == 0 && close(fd) == -1;
	if (!early_result)
		abort();
}
