"""The Level Zero driver: everything that knows what a `ze_command_list_handle_t` is."""
